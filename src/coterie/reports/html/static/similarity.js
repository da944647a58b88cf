"use strict";
Coterie.component("similarity", {
  title: "How similar a watched peer really is to the others",
  short: "True similarity",
  explain:
    "One line per other peer, in the colour of its true cluster. It shows the similarity that the " +
    "watched peer would measure if it fetched every model in every round. Where the colours separate, " +
    "this similarity can distinguish the clusters.",
  render(element, data) {
    const panel = Coterie.panel(element);
    const draw = () => this.render(element, data);
    const { plain, fade } = Coterie;
    const run = Coterie.chooseRun(panel, data, draw);
    const peers = [...new Set(run.watched.map((each) => each.peer))];
    const peer =
      peers[
        panel.choice(
          "peer",
          "Watched",
          peers.map((n) => `peer ${n}`),
          draw,
        )
      ];
    const mine = run.watched.filter((each) => each.peer === peer);
    const which = panel.choice(
      "metric",
      "Similarity by",
      mine.map((each) => each.metric),
      draw,
    );
    const shown = mine[Math.min(which, mine.length - 1)];
    const present = data.clusters
      .map((cluster, number) => ({ ...cluster, number }))
      .filter(({ number }) =>
        shown.clusters.some((changes) => changes.some(([, c]) => c === number)),
      );
    panel.legend(
      present.map(({ name, colour }) => ({ name, colour })),
      draw,
    );
    const traces = present
      .filter(({ name }) => !panel.isHidden(name))
      .map(({ name, colour, number }) => {
        const [x, y, text] = [[], [], []];
        shown.others.forEach((other, place) => {
          for (const [from, to] of stretches(shown.clusters[place], number)) {
            for (let n = from; n <= to; n += 1) {
              x.push(shown.rounds[n]);
              y.push(shown.values[place][n]);
              text.push(`peer ${other} (${plain(name)})`);
            }
            x.push(null);
            y.push(null);
            text.push("");
          }
        });
        const line = { color: fade(colour, 0.55), width: 1.2 };
        return {
          x,
          y,
          text,
          mode: shown.rounds.length > 1 ? "lines" : "markers",
          line,
          hovertemplate: "%{text}, round %{x}: %{y:.4~g}<extra></extra>",
        };
      });
    const own = data.clusters[shown.own.at(-1)]?.name ?? "?";
    panel.plot(
      traces,
      {
        ...Coterie.overRounds(`similarity by ${shown.metric}`, data.shifts),
        hovermode: "closest",
      },
      {
        name: "similarity",
        alt: `Lines over rounds: similarity of peer ${peer} (${own}) to ${shown.others.length} others by ${shown.metric}.`,
      },
    );
    panel.setText(
      `Peer ${peer} is in cluster ${own}${new Set(shown.own).size > 1 ? " at the end; it moved between clusters" : ""}.`,
    );

    /* Return [from, to] for each time a peer was in a cluster; a line ends where the next begins. */
    function stretches(changes, number) {
      const last = shown.rounds.length - 1;
      return changes.flatMap(([start, cluster], n) =>
        cluster === number ? [[start, Math.min(changes[n + 1]?.[0] ?? last, last)]] : [],
      );
    }
  },
});
