"""What docs/kin.md says in words, written by hand; the tables are written by docs/kin.py."""

from __future__ import annotations

INTRODUCTION = """# Kin beside the others

Kin needs no tuning: it asks of every model whether it is as good as its own on its own validation
data ([how it works](algorithms.md)). This page holds it against other strategies, takes it apart,
poisons its peers and tries unusual conditions. It is written by `python docs/kin.py` from the files
in `docs/kin/`; the words are in `docs/kin_text.py`.

<!-- not run: takes hours -->
```bash
coterie study kin --out runs/kin            # everything; stop it and start it again at will
coterie study kin --only labels2,rotation4 --strategy kin,oracle,dac --rounds 100 --out runs/kin
python docs/kin.py runs/kin                 # keeps what has finished, and writes this page
```

**What is compared.** All strategies of a setting have the same data, initial weights and model, and
fetch the same number m of models a round; HAST does so in its two steps, PANM up to twice
as many, since it also tries strangers. Options are those of the setting's paper where it has any.
`dac` has the published temperature of its setting, `dac-tau1` to `dac-tau1000` have others; in
`synthetic` all have one learning rate. Seeds begin at 1: Kin was designed on seed 0.

**How to read the tables.** Test accuracy, or the squared error, is that of each peer's best model
by validation at the end, mean over honest peers; numbers are means over seeds, ± half the width of
the 95 % confidence interval (Student's t); (2 of 3) says that not all seeds have finished. Which
models may become the best, only trained ones or merged ones too, is the setting's; one table has
the other rule. Below the tables of a group stands in what the runs depart from the study's own
settings, such as fewer rounds or peers.
"""

FINDINGS = ""
"""What was found, with headings of the second level; nothing as long as nothing is known."""

GROUPS = {
    "main": """## Strategies side by side

Ten settings: labels in two and five groups, rotations with independent and common initial weights,
rotations in uneven clusters, two kinds of images, a regression, and two in which data drift.
""",
    "ablation": """## Kin without each of its parts

`kin-no-…` lacks one part. `oracle-adopt` is told the true clusters, as Oracle is, but merges as Kin
does.
""",
    "poison": """## Poisoned peers

30 % of all peers misbehave from the first round on; numbers are of the honest ones. In `death` 25
of the 60 peers of the first cluster merge with the other cluster from round 50 on. What honest
peers lose is measured peer by peer against the same strategy and seed without poison; in `death`
over the honest peers of the first cluster. Liars change nothing for strategies that do not read
what others say, and are left out there.
""",
    "conditions": """## Unusual conditions

Rotations with common initial weights: 20 to 1,000 validation samples per peer (32 peers, since
images are limited); no clusters at all (`iid`); a task of its own for each of 20 peers, which mean
other things by almost all labels (`own-task`); training sizes that fall with the rank, at least 50
(`unequal-sizes`); peers that miss 30 % of the rounds (`offline`).
""",
}
