"""The dashboard: server-rendered pages over the stored plans. Charts are a pure data function and a thin renderer."""
