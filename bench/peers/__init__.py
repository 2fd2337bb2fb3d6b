"""fold8 next to other runtimes on the same models; `bench/model_bench` is the command, `peers/README.md` the overview."""
