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
`synthetic` all have one learning rate. Seeds begin at 1, but not all of them are new to Kin: see
below.

**How to read the tables.** Test accuracy, or the squared error, is that of each peer's best model
by validation at the end, mean over honest peers; numbers are means over seeds, ± half the width of
the 95 % confidence interval (Student's t); (2 of 3) says that not all seeds have finished. Which
models may become the best, only trained ones or merged ones too, is the setting's; one table has
the other rule. Below the tables of a group stands in what the runs depart from the study's own
settings, such as fewer rounds or peers.
"""

FINDINGS = """## What was found

**It holds its own against Oracle where clusters are far apart.** With rotations and independent
initial weights (40 of 100 peers, 100 of 200 rounds, three seeds) Kin ends at 45.3 %, DAC with its
published temperature at 42.9 %, and Oracle, which is told the clusters, at 41.6 %; by the other
rule 45.8, 44.7 and 44.0 %. Around round 10 the share of fetched models from the own cluster is 96
%, around round 20 99 %; DAC's is at 39 % then. Labels in two and five groups were run with one
seed: Kin is 0.5 to 2 points above Oracle and 0.9 to 3 above DAC by the setting's rule, and level
with Oracle (+0.3 and −0.1) by the other.

**Which seeds Kin had seen.** Its first version was designed on seed 0. The present one was chosen
among variants by results of seeds 1 to 3 on digits, and of seed 1 in rotation4 and labels5: about
five rules of restraint, four ways to judge rivals and four ways to choose peers were tried,
looking at test accuracy, too. Those numbers are therefore flattering. Not looked at for any choice
were seeds 2 and 3 of rotation4, where Kin has 45.5 and 45.7 %, DAC 42.6 and 42.5, Oracle 42.0 and
41.8, and labels2, swap4-feddrift and all poisoned runs on images.

**Part of it is the rule.** Where only trained models may become the best, a strategy that skips a
training has its merged model counted. Restraint does just that, so compare by both rules: the
other one is fair to all.

**What matters.** Judging models against each other on training data (`rivals`) is what makes few
validation samples enough: on digits, with 10 of them, 85 % against 73 % without, and DAC's 67 %.
Replies, hearsay and "average or adopt" are worth a point or less there. Oracle's choice with Kin's
merge (`oracle-adopt`) is no better than Oracle on digits, where all start alike; with independent
initial weights it has not been run on images yet.

**Restraint is what long runs need.** With rotations, seed 1, an earlier state of Kin without it
stood at 41.3 % after 60 rounds, its merged models overfitting (their validation loss had risen to
1.9); with three epochs cut down to one or two where nothing was gained, at 45.1 % after 100. It
works for others, too: Oracle, with a similar rule, went from 40.8 to 42.7 %. On digits it changes
nothing.

**It beats Oracle in regression**, by restraint again: squared error 9.42 against 10.19, and 9.36
against 9.44 by the other rule (seed 1).

**Where it loses.** Labels that are swapped and come and go (`swap4-feddrift`, a tenth of the
rounds, one seed): HAST has 44.3 % over time, Oracle 43.1, Kin 42.5, DAC 41.8, and after a shift
HAST falls less. There only the classifier differs between peers, and HAST shares the layers before
it with everybody; Kin has nothing to do with strangers. With very few samples it is slow: on
digits it needs 20 to 30 rounds to know its kind, and with an unlucky seed it is behind a DAC whose
temperature was tuned by hand when the demo ends. Where 30 % of the peers are offline it is 6
points behind Oracle on digits.

**Among 30 % poisoned peers** (labels in two groups, 40 peers, 100 rounds, one seed) honest peers
lose 2.1 points by label flips and stale models, 2.7 by noise and 3.3 by flipped updates. Nearly all
of it is lost with the 12 peers' data, not to their poison: when those peers are just away, the
others lose 2.6 (by the other rule 2.1). Models with noise or flipped labels have no weight in any
merge after the first ten rounds. Flipped updates have: undoing one epoch of training leaves a model
that validates as well as others', and a fifth of the merged weight is theirs for a long time.

**What has changed since.** All runs in the tables are of Kin as it was before peers could be
doubted. In the runs with noise and stale models 12 to 16 % of the fetches of rounds 10 to 60 went
to poisoned peers, whose word outweighed what had been found of them. With doubt (the same run with
noise, not in the tables) 2 % of the fetches go to them in rounds 21 to 40 and 1 % later; honest
peers end at 58.6 % instead of 58.2, without poison at 60.8 instead of 60.9, and at 58.4 where the
12 peers are away. On digits without poison (40 rounds, seeds 0 and 7 to 11) Kin has 81.1 % with
doubt and 80.1 % without; a first form, which doubted at any contradiction, had 78.6 % and was
dropped for that.

**What is not known yet.** The settings at the end of this page have not been run, nor anything
with all 100 peers to the end.
"""
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

30 % of all peers misbehave from the first round on; numbers are of the honest ones. With `absent`
they take no part instead, which tells what is lost with their data. In `death` 25
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
