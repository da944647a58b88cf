"""What docs/kin.md says in words; every number comes from the study or from kept results."""

from __future__ import annotations

from coterie.studies.kin import DELUSION, NUM_TASKS, POISONED_SHARE, VALIDATION_SIZES
from coterie.studies.study_results import EARLY, HARM

TITLE = """# Kin beside other strategies

Kin is the default strategy: it has no threshold to tune ([how it works](algorithms.md#kin)). The
table shows test accuracy in percent, as a mean over seeds; where data drift, as a mean over time.
"""
LEGEND = """Bold: the best of its setting. † fewer seeds than Kin. The last two columns compare on
the same seeds; a positive number means that Kin is better. Oracle knows the true clusters, which no
peer does in practice. The settings are shorter and smaller than those of the papers:
[how they were made](#how-the-runs-were-made).
"""
READING = """## How to read this page

- **Same conditions.** All strategies of a setting have the same data, initial weights and model.
  They fetch the same number of models per round. HAST fetches them in two steps. PANM fetches about
  twice as many, because it also tries unknown peers.
- **DAC** has the temperature of its paper. `dac-tau…` has another one.
- **Best model.** The test is that of each peer's best model by validation, as a mean over honest
  peers. By one rule only trained models can become the best; by the other rule merged models can,
  too. `as preset` is the rule of the setting's paper.
- **Intervals.** ± is half the width of the 95 % confidence interval (Student's t).
- **Harm** means to end more than {harm} below training alone.
- **Similar peers** are those of the same true cluster, around rounds {early}.
- A dash is an unknown number. The files in `docs/kin/` hold every run.
"""
AGAINST = """## Kin against each strategy

At the end of the run, on the same seeds. Points are points of accuracy; the setting is in brackets.
"""
ALL_PEERS = """### With all peers of the paper

Most settings leave out some peers. These have all of them; here they are without poisoned peers.
"""
LIMITS = """## Limits

- Kin needs enough validation samples. With few of them it takes longer to find similar peers.
- {worst} Why, is [measured](decisions/0012-kin.md).
- Kin may skip a training, and then its merged model counts. Compare by both rules.

**Seeds that were used while Kin was designed**

| chosen | seeds | settings |
| --- | --- | --- |
| the first version | 0 | images |
| rules of restraint, test against rivals, choice of peers | 1 to 3 | digits |
| the same | 1 | rotation4, labels5 |
| doubt, and which peers are spared the second test | 0, 4 to 11 | digits |
| the same | 4 | labels2, rotation4 |
| when to fine-tune | 4 to 6 | digits |
| the same | 4 | labels2, swap4-feddrift |

Seeds 2 and 3 of the images, poison, and all other settings were not used for any choice.
"""
HOW = """## How the runs were made

<!-- not run: takes hours -->
```bash
coterie study kin --out runs/kin
python tools/write_kin_page.py runs/kin
```

The first command runs everything; stop it and start it again at any time. The second keeps the
finished runs in `docs/kin/` and writes this page. `--only`, `--strategy`, `--rounds` and `--seeds`
run a part.
"""
GROUPS = {
    "main": """## Strategies side by side

Labels in two and five groups, rotations, two kinds of images, digits and a regression. In the last
two settings data drift.
""",
    "ablation": """## Kin without each of its parts

`kin-no-…` lacks one part. `oracle-adopt` knows the true clusters, as Oracle does, but merges as Kin
does.
""",
    "poison": f"""## Poisoned peers

{POISONED_SHARE:.0%} of all peers misbehave from the first round on. All numbers are of the honest
peers. With `absent` these peers take no part, which shows the loss of their data. In `death`
{DELUSION["poison.count"]} peers of the first cluster merge with the other cluster from round
{DELUSION["poison.from_round"]} on. The loss is measured against the same strategy and seed without
poison. In `death` it is that of the honest peers of the first cluster.
""",
    "conditions": f"""## Unusual conditions

Rotations with common initial weights.

| setting | condition |
| --- | --- |
| `validation-…` | {min(VALIDATION_SIZES)} to {max(VALIDATION_SIZES):,} validation samples |
| `iid` | one cluster |
| `own-task` | {NUM_TASKS} peers, each with labels of another meaning |
| `unequal-sizes` | training sets of unequal size |
| `offline` | peers that miss rounds |
""",
}


def limits(worst: str) -> str:
    """Return what Kin cannot do; `worst` says which poison costs most."""
    return LIMITS.format(worst=worst)


def reading() -> str:
    """Return how to read the page."""
    rounds = " and ".join(map(str, EARLY))
    return READING.format(harm=f"{100 * HARM:g} points", early=rounds)
