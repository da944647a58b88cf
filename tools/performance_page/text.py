"""The texts of docs/performance.md."""

from __future__ import annotations

SHOWN = {
    "coterie": "Coterie",
    "torch": "plain torch loop",
    "gossipy": "gossipy",
    "fluke": "fluke",
    "flower": "Flower",
    "p2pfl": "p2pfl",
}
"""What frameworks are called on the page, in the order of its tables."""
DIFFERENCES = {
    "coterie": (
        "Each peer fetches the model of one random peer. Included are two validations of each "
        "model, on one sample, and all records of a run."
    ),
    "torch": "Each peer averages its model with a copy of one random other. Nothing else is done.",
    "gossipy": "Each peer pulls the model of one random other (its protocol PULL).",
    "fluke": (
        "Its algorithm GossipDFL. A peer merges all models it has got since its last turn. A "
        "peer that got none does not train, so only trainings are counted."
    ),
    "flower": (
        "Its simulation engine with FedAvg, because it has no mode without a server. Peers read "
        "their data in each round and keep nothing between rounds."
    ),
    "p2pfl": (
        "All peers average the models of all peers. Evaluation cannot be switched off, and has one "
        "sample. Peers exchange messages in memory, and wait for each other in fixed periods."
    ),
}

TITLE = """# Performance

This page shows how fast Coterie is and how much memory it takes. It helps you to plan large
simulations, and to compare Coterie with what you use now.

## Beside other frameworks

{verdict}

![Peer-rounds per CPU-second of each framework]({picture})

A peer-round is one merge and one local training of one peer. The table has the results with
{peers} peers:

{compared}

The memory of further peers is the increase, compared with a run of {baseline} peers. The images of
a peer have {data_kilobytes} KB. The next table has other numbers of peers:

{sizes}
"""
WORK = """
The work is the same everywhere, as far as each framework allows:

| part | what it is |
| --- | --- |
| network | 5,258 parameters: 2 × (convolution 3×3, ReLU, pooling 2×2), one linear layer |
| data | 128 images of 28×28 pixels per peer, {data} |
| training | SGD, batches of 32, one epoch per round |
| merge | one model fetched or received per peer and round |
| evaluation | off, where it can be switched off |
| threads | one per library, and at most {cores} workers or threads on {cores} cores |

This is what differs:

{differences}
"""
METHOD = """
The frameworks ran in turn on one machine ({cpu}, {cores} cores, torch with {vectors}), {repeats}
times each. The tables have the best run of each. CPU time is that of all processes of a framework,
without the start and the first round. The machine had other work, so CPU time says more than wall
time. Even so, a framework's worst run with {peers} peers has a rate up to {spread} below its best.
A run was stopped after {limit} seconds. Memory is the largest sum of the processes' proportional
shares, the median of the runs.

`benchmarks/rivals.py` repeats the measurement. It installs each framework into an environment of
its own. The adapters in `benchmarks/rivals/` are short, so that you can check them:

<!-- not run: measures for minutes -->
```bash
python benchmarks/rivals.py --repeats 3
```
"""
OTHERS = """
## Beside torch

Training and evaluation with the networks of the papers, in batches of 8, compared with torch and
its fused Adam:

{speed}

Training of other networks:

{networks}

The compiled trainer covers [these layers](running.md#trainers-and-devices). `coterie bench`
measures your machine.

## Memory

DAC with the preset `dac-cifar-rotation4`, two threads, and 75 images per peer:

{many_peers}

From {fewer} to {more} peers, memory grows by {slope} MB per peer. {swarm}

This page is written by `python tools/write_performance_page.py` from `benchmarks/results`.
"""
