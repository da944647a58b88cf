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

**It is at least as good as Oracle, without being told anything.** In all seven settings of
classification without drift (40 of 100 peers, 100 rounds; seeds as in the tables) Kin ends above
Oracle, which is told the clusters, and above DAC with its published temperature, by either rule of
what may become the best model (means over seeds): rotations 45.4 % against 41.6 (Oracle) and 42.9,
with common initial weights 44.8 against 40.7 and 39.4, labels in two groups 60.2 against 58.2 and
57.3, in five 85.8 against 85.3 and 84.4, Fashion-MNIST 84.4 against 84.2 and 84.1, digits and
clothes 91.4 against 91.1 and 90.3. By the other rule the distance is smaller, 0.0 to 1.6 points
above Oracle. With all 100 peers and all 200 rounds of rotation4 (seed 1, not in the tables): Kin
51.0 %, Oracle 46.5, by the other rule 51.3 and 49.2.

**Small clusters gain from similar big ones.** In uneven rotations (28, 8, 2 and 2 peers) Kin has
48.6 %, Oracle 43.6 and DAC 44.5: a fifth of the models Kin fetches are from other clusters, and
those suit it.

**It finds its kind soon.** Around round 10 the share of fetched models from the own cluster is 95 %
in labels5 and 97 % in rotation4, around round 20 99 % in both; DAC's is 93 and 30 % around round
10. Nobody is never fetched, and wherever Local was run nobody ends more than 2 points below it.
A round takes less CPU time than DAC's: 1.8 s against 3.3 in rotation4, 1.6 against 2.1 in
labels5.

**Where data drift it is ahead of HAST, fine-tuning left aside.** HAST trains its classifier once
more after every round, and keeps that if validation improves. With labels in two groups (80 of 2000
rounds, three shifts) Kin has 48.8 % over time as it is, HAST 46.1, DAC 45.7; fine-tuned as HAST is,
Kin has 50.1, and HAST without it 44.4. Where labels are swapped (`swap4-feddrift`, 200 rounds, nine
shifts) it depends on that: fine-tuned, Kin has 45.3 and HAST 44.3; not fine-tuned, 42.4 and 41.9,
DAC 41.8, Oracle 43.1. Both recover within one to two rounds; Kin falls as deep as Oracle. So it was
not the sharing of early layers with everybody that put HAST ahead: letting Kin do the same changed
nothing (seed 4, +0.0 points).

**Fine-tuning is no default**, since it is worth most when models are young: on digits, after 40
rounds, 86.6 % against 81.7 (seeds 4 to 9), after 150 rounds 90.0 against 89.6, and on labels2,
after 100 rounds, 60.1 against 61.1 (seed 4). It is one more training a round, too.

**Which seeds Kin had seen.** Its first version was designed on seed 0. Then it was chosen among
variants by results of seeds 1 to 3 on digits, and of seed 1 in rotation4 and labels5: about five
rules of restraint, four ways to judge rivals and four ways to choose peers were tried, looking at
test accuracy, too. Doubt and who is spared the second test were chosen on seeds 0 and 4 to 11 of
digits and checked on seed 4 of labels2 and rotation4. Not looked at for any choice were seeds 2 and
3 of the images, and all other settings, drift and poison included.

**Part of it is the rule.** Where only trained models may become the best, a strategy that skips a
training has its merged model counted. Restraint does just that, so compare by both rules: the other
one is fair to all.

**What matters.** Judging models against each other on training data (`rivals`) is what makes few
validation samples enough: on digits, with 10 of them, 85 % against 66 % without, and DAC's 67 %.
Replies are worth a point there, hearsay and "average or adopt" nothing by round 40, though both
replies and hearsay find the own cluster sooner (90 % of the fetches around round 20, 77 % and 70 %
without). Oracle's choice with Kin's merge (`oracle-adopt`) is no better than Oracle on digits,
where all start alike; with independent initial weights it has not been run on images yet.

**Restraint is what long runs need.** With rotations, seed 1, an earlier state of Kin without it
stood at 41.3 % after 60 rounds, its merged models overfitting (their validation loss had risen to
1.9); with three epochs cut down to one or two where nothing was gained, at 45.1 % after 100. It
works for others, too: Oracle, with a similar rule, went from 40.8 to 42.7 %. On digits it changes
nothing.

**It beats Oracle in regression**, by restraint again: squared error 9.42 against 10.19, and 9.35
against 9.42 by the other rule (three seeds).

**Where it loses.** With very few samples it is slow: on digits it needs 20 to 30 rounds to know its
kind, and with an unlucky seed it is no better than a DAC whose metric and temperature were tuned by
hand when the demo ends. Where 30 % of the peers are offline an earlier state of it was 6 points
behind Oracle on digits.

**Among 30 % poisoned peers** (labels in two groups, 40 peers, 100 rounds, one seed) honest peers
lose 2.6 points by flipped updates and flipped labels, 1.9 by noise and stale models, and 0.8 by
lies. Nearly all of it is lost with the 12 peers' data, not to their poison: when those peers are
just away, the others lose 2.3. Flipped updates cost a little more than that: undoing one epoch of
training leaves a model that validates as well as others', and is merged.

**When 10 of the 24 peers of a cluster turn away** (`death`, from round 50 on) the others of it lose
0.6 points with Kin, and 1.3 with Oracle, which keeps trusting them.

**What is not known yet.** The settings at the end of this page have not been run, and nothing but
rotation4 with all 100 peers.
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
