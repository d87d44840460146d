#!/bin/sh
# What to run where a machine with a GPU is at hand for a while: steps that each keep their result, the most valuable first.
#
#   benchmarks/on_a_gpu.sh OUT [PYTHON]
#
# A step that is done is not run again, one that fails says so in OUT and the next one is tried. PYTHON needs torch; steps from 2 on
# need fbgemm-gpu (the build that pairs with that torch), torchrec and emplace. On a machine without a GPU all but 5 and 6 run on CPUs.
set -u
out=${1:?where do results go?} python=${2:-python3}
mkdir -p "$out"

step() {
    name=$1
    shift
    if [ -e "$out/$name.done" ]; then
        echo "$name: done before"
        return
    fi
    echo "$name: $*"
    if "$@" > "$out/$name.out" 2> "$out/$name.err"; then
        touch "$out/$name.done"
    else
        echo "$name: failed with $?, see $out/$name.err"
    fi
}

machine() {
    "$python" --version
    "$python" -c 'import torch; print("torch", torch.__version__, "cuda", torch.version.cuda, "devices", torch.cuda.device_count())'
    "$python" -m pip list 2>/dev/null | grep -i -E '^(torch|torchrec|fbgemm|numpy|triton)' || true
    nproc
    free -g
    if command -v nvidia-smi > /dev/null; then
        nvidia-smi
        nvidia-smi topo -m
        nvidia-smi --query-gpu=name,memory.total,pcie.link.gen.max,pcie.link.width.max,power.limit --format=csv
    fi
}

emplace() {
    "$python" -c 'from emplace.app.cli.main import main; main()' "$@"
}

plan_and_run() {
    emplace plan "$1" --host local --ranks 1 --cost-model "$out/$2" --format json --out "$out/$1-plan.json" &&
        emplace run "$out/$1-plan.json" --format json --out "$out/$1-measured.json"
}

step 0-machine machine
step 1-without-fbgemm "$python" -m benchmarks.device_samples
step 2-profile-quick emplace profile --quick --ranks 1 --out "$out/quick.json"
step 3-small-model plan_and_run ncf quick.json
step 4-samples "$python" -m benchmarks.profile_samples "$out/samples"
step 5-cached "$python" -m benchmarks.gpu_lookups cached
step 6-rows "$python" -m benchmarks.gpu_lookups rows
step 7-profile-full emplace profile --ranks 1 --out "$out/full.json"
step 8-model plan_and_run rm1 full.json
