"""What docs/kin.md says in words; the tables are written by tools/write_kin_page.py."""

from __future__ import annotations

INTRODUCTION = """# Kin beside the others

Kin needs no tuning: it asks of every model whether it is as good as its own on its own validation
data ([how it works](algorithms.md)). This page holds it against other strategies, takes it apart,
poisons its peers and tries unusual conditions. It is written by `python tools/write_kin_page.py`
from the files in `docs/kin/`; the words are in `tools/kin_page/text.py`.

<!-- not run: takes hours -->
```bash
coterie study kin --out runs/kin            # everything; stop it and start it again at will
coterie study kin --only labels2,rotation4 --strategy kin,oracle,dac --rounds 100 --out runs/kin
python tools/write_kin_page.py runs/kin     # keeps what has finished, and writes this page
```

**What is compared.** All strategies of a setting have the same data, initial weights and model, and
fetch the same number m of models a round; HAST does so in its two steps, PANM about twice as many
or more, since it also tries strangers (the tables say how many). Options are those of the setting's
paper where it has any. `dac` has the published temperature of its setting (5 in labels5, 10 in
labels2 and fashion, 1 in mnist-fashion, 10,000 in `synthetic`, otherwise 30), `dac-tau1` to
`dac-tau1000` have others; in `synthetic` all have one learning rate. Seeds begin at 1, but not all
of them are new to Kin: see below.

**How to read the tables.** Test accuracy, or the squared error, is that of each peer's best model
by validation at the end, mean over honest peers; numbers are means over seeds, ± half the width of
the 95 % confidence interval (Student's t); (2 of 3) says that not all seeds have finished. Which
models may become the best, only trained ones or merged ones too, is the setting's; one table has
the other rule. Below the tables of a group stands in what the runs depart from the study's own
settings, such as fewer rounds or peers.
"""

FINDINGS = """## What was found

**It keeps up with Oracle, without being told anything.** In all seven settings of classified images
without drift (40 of 100 peers, 100 rounds, three seeds) Kin ends above DAC with its published
temperature, and above Oracle, which is told the clusters, or at most 0.4 points below, by either
rule of what may become the best model (means over seeds): rotations 45.5 % against 41.6 (Oracle)
and 42.9 (DAC), with common initial weights 44.5 against 40.6 and 39.5, labels in two groups 59.9
against 58.2 and 57.8, in five 85.1 against 85.3 and 84.5, Fashion-MNIST 84.5 against 83.8 and 83.8,
digits and clothes 91.1 against 90.8 and 90.3. By the other rule it is 0.4 points below Oracle with
labels in five groups, 0.3 with labels in two, 0.1 with digits and clothes, and 0.4 to 1.7 above in
rotations and clothes; with labels in two groups it is then level with DAC.

**With all 100 peers** (seed 1, not in this table) rotation4 ends, after all 200 rounds, at 51.3 %
against Oracle's 46.5, and by the other rule at 51.9 against 49.2. With labels in two groups, after
100 rounds (`death`), Kin has 62.3 against 61.3, but **by the other rule 62.9 against 64.0: there it
loses a point**. Most of that is restraint: without it Kin has 60.4 and 63.7. Models trained in full
make the better average, which the other rule counts, but training then makes that average worse,
which the preset's rule counts. Judging models against each other (`rivals`) costs some, too:
without, Kin has 62.7 and 63.2. It finds its kind (98 % around round 10) and merges no other, but an
eighth of the models of its kind fail that test in any late round. Without fine-tuning Kin has 62.5
and 62.9.

**Small clusters gain from similar big ones.** In uneven rotations (28, 8, 2 and 2 peers, three
seeds) Kin has 49.7 %, Oracle 44.4 and DAC 45.4, by the other rule 50.3, 46.5 and 47.7: a fifth of
the models Kin fetches are from other clusters, and those suit it.

**It finds its kind soon.** Around round 10 the share of fetched models from the own cluster is 96 %
in labels5 and 97 % in rotation4, around round 20 99 % and more in both; DAC's is 93 and 30 % around
round 10. Nobody is never fetched. A round takes less CPU time than DAC's: 2.0 s against 3.1 in
rotation4, 1.7 against 1.9 in labels5, 1.86 against 1.94 in labels2. With all 100 peers of rotation4
it is 7.1 s over 200 rounds; in the first five, when nobody is known, it is 14 s, and DAC's 8. Where
models are tiny it is more: with the eleven parameters of `synthetic` a round of 99 peers is hardly
more than Python, of which Kin has about twice as much as DAC, and on digits half as much again.

**Where data drift it is ahead of HAST, or level.** With labels in two groups (80 of 2000 rounds,
three shifts, three seeds) Kin has 49.6 % over time, HAST 45.8 and DAC 45.6, and recovers as fast as
HAST, in one round; DAC takes three to four. On seed 1, where Kin has 50.1, PANM has 48.0 (twice as
many exchanges), Oracle 47.9, PENS 45.9, Random 43.7 and Local 42.4. With swapped labels
(`swap4-feddrift`, 200 rounds, nine shifts, three seeds) Kin has 43.6 and HAST 43.2, on one seed 0.1
less than HAST; both take 1.5 to 1.6 rounds to recover. Oracle has 42.4 there and DAC 40.9; on seed
1, where Kin has 45.1, PANM has 42.5, PENS 41.4, Random 40.9 and Local 33.7. Another temperature is
worth 0.4 points to DAC at most: 43.8 to 46.0 with labels in two groups, 41.1 to 41.4 with swapped
labels, and 45.6 and 41.8 with the published one (seed 1). HAST owes its place to fine-tuning, not
to the early layers that it shares with everybody: without it, it has 44.4 and 41.9 (seed 1), and
letting Kin share early layers changed nothing (seed 4, +0.0 points).

**What fine-tuning is worth.** Kin trains its classifier once more, as HAST does, unless training
has just made its model worse. On digits, after 40 rounds, that is worth 2.1 points, with swapped
labels 2.8, in uneven rotations 1.3, on Fashion-MNIST 0.5; rotations stay as they are, and with
labels in two or five groups, after 100 rounds, it costs 0.3 and 0.6 (an otherwise equal Kin without
it, same seeds). Whoever trains for long on labels may leave it out (`finetune: false`).

**Which seeds Kin had seen.** Its first version was designed on seed 0. Then it was chosen among
variants by results of seeds 1 to 3 on digits, and of seed 1 in rotation4 and labels5: about five
rules of restraint, four ways to judge rivals and four ways to choose peers were tried, looking at
test accuracy, too. Doubt and who is spared the second test were chosen on seeds 0 and 4 to 11 of
digits and checked on seed 4 of labels2 and rotation4; when to fine-tune on seeds 4 to 6 of digits,
and 4 of labels2 and swap4-feddrift. Not looked at for any choice were seeds 2 and 3 of the images,
and all other settings, poison included.

**Part of it is the rule.** Where only trained models may become the best, a strategy that skips a
training has its merged model counted. Restraint does just that, so compare by both rules: the other
one is fair to all.

**What its merge is worth.** In rotations with independent initial weights (60 rounds, 40 peers,
three seeds) Oracle has 41.2 %, and 42.2 when it merges as Kin does (`oracle-adopt`); Kin has 45.2,
and 43.5 when it averages all of its kind (`kin-no-adopt`). By the other rule these are 43.3 and
45.1, 45.6 and 44.4: there most of Kin's lead is "average or adopt", and whom it chooses is worth no
more than to be told the clusters.

**What matters where data are few.** On digits, with 10 validation samples and 40 rounds,
fine-tuning is worth 2.1 points, judging models against each other on training data (`rivals`) 1.1,
replies 0.9, hearsay 0.3; "average or adopt" and restraint nothing by then. Rivals, replies and
hearsay are what finds the own cluster: around round 10 57 % of the fetches come from it, without
one of them 35 to 45 %. The parts stand in for each other: without fine-tuning, rivals made a
difference of 19 points there. `oracle-adopt` is no better than Oracle on digits, where all start
alike.

**Restraint is what long runs need.** With rotations, seed 1, an earlier state of Kin without it
stood at 41.3 % after 60 rounds, its merged models overfitting (their validation loss had risen to
1.9); with three epochs cut down to one or two where nothing was gained, at 45.1 % after 100. It
works for others, too: Oracle, with a similar rule, went from 40.8 to 42.7 %. On digits it changes
nothing. With labels in two groups (seed 4, 100 rounds) Kin has 61.6 with it and 58.3 without, and
61.7 and 61.3 by the other rule; Oracle 58.9 and 61.7.

**It beats Oracle in regression**, by restraint again: squared error 9.42 against 10.19, and 9.35
against 9.42 by the other rule (three seeds).

**Among 30 % poisoned peers** (labels in two groups, all 100 peers, 60 rounds) honest peers lose 0.2
points by noise and by lies, 0.3 by flipped labels and 0.4 by stale models (one seed): no more than
when those peers are just away, 0.4. **Flipped updates cost 2.0** (three seeds, 1.4 to 2.4; on the
seed on which they cost 1.4, Oracle loses 5.4 and Random 5.3): undoing a training leaves a model
that validates nearly as well as others'; three quarters of them pass, and make up 15 to 17 % of
what is merged, where noise, stale models and flipped labels are down to nothing after ten rounds.
From about round 20 on nothing that was tried tells them apart ([measured](decisions/0012-kin.md)).
In rotations 40 peers are too few to do without 12: when these are just away, the others lose 2.3
points, by flipped labels as much, by noise and stale models 1.5 and 1.6, by lies 0.6, and by
flipped updates 2.9. With all 100 peers (not in the tables) it is 1.4 points when 30 are away, and
2.8 by flipped updates.

**When 25 of the 60 peers of a cluster turn away** in round 50 (`death`, all 100 peers, 100 rounds)
the others of it lose 0.6 points with Kin, and 3.3 with Oracle, which keeps trusting them. When 10
of 24 do so as early as in round 17 (40 peers, not in the tables), Kin loses 2.2 in the 83 rounds
that follow, Oracle 8.4.

**It harms nobody** who could train alone: in no setting of images (seed 1) does a single peer end
more than two points below that, and in the regression one peer of 297 ends with a squared error 2 %
higher. Where no two peers have the same task (`own-task`) it does not fall below training alone,
either.

**In unusual conditions** (16 or 20 peers, 60 rounds, one seed) Kin stays above Oracle: with 100 to
1,000 validation samples by 1.9 to 3.3 points, with 50 by 0.9, with 20 by 0.1, with sizes that
differ by 2.2, with peers that are often away by 2.7, and where all have one task by 5.0. By the
other rule it is 0.6 to 1.3 points in these, and 0.3 below Oracle with 20 samples. Of the five
models it fetches, three or four are of its own cluster: there are no more.

**A temperature is worth tuning, and Kin needs none.** On images (seed 1) DAC's published
temperature is the best, or within 0.6 points of the best, of the five that were tried in each
setting. One that is as good elsewhere costs up to 1.5 points on Fashion-MNIST, 1.7 with labels in
five groups, 2.6 with labels in two, 4.1 in rotations and 2.9 in uneven ones: 1 is best for digits
and clothes, 10 with labels in two groups, 30 in rotations, and on digits it is 100, in `synthetic`
1000. With none of them, published or not, does DAC end above Kin, but for the published one in
rotation4 by the other rule, by 0.1 points on that seed.

**Random, PENS and PANM** have one seed on images, too (by the preset's rule, as in the tables):
Random is 1 to 7 points below Kin, PENS as much. PANM is 4 to 5 points below Kin in rotations, 1.5
with labels in two groups and 0.3 to 0.6 with digits and clothes. **With labels in five groups it is
0.4 points above Kin**, by the other rule also 0.4 with labels in two and 0.1 with digits and
clothes: it exchanges more than twice as many models as all others, and its rounds take longer; by
how much the table overstates, since Kin was timed on a faster day.

**What is not known yet.** The settings at the end of this page have not been run, and few with all
100 peers. On digits and in `synthetic` all strategies are compared on three seeds, on images only
Kin, Oracle and DAC with its published temperature, where labels drift Kin, HAST and DAC; all others
have one seed there. What each part of Kin is worth was measured on digits, and of its merge in
rotation4. Of poisons only flipped updates have three seeds, and only these were tried on other
strategies.
"""
"""What was found, with headings of the second level; nothing as long as nothing is known."""

GROUPS = {
    "main": """## Strategies side by side

Labels in two and five groups, rotations with independent and common initial weights, rotations in
uneven clusters, two kinds of images, the bundled digits, a regression, and two settings in which
data drift. In the 40 rounds of `digits` PANM stays in its first stage.
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
