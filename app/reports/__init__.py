"""How answers look: a plan, a diff, a run and a profile as text, and the interchangeable reports of a check."""
