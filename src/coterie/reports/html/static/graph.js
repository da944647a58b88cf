"use strict";
Coterie.component("graph", {
  title: "How groups form",
  explain:
    "Each dot is a peer, in the colour of its true cluster. Lines lead to the peers that it prefers " +
    "to learn from; stronger lines mean a stronger preference. Peers that prefer each other move " +
    "together. Press Play.",
  render(element, data) {
    const panel = Coterie.panel(element);
    const draw = () => this.render(element, data);
    const { svg, colour, unpack } = Coterie;
    const run = Coterie.chooseRun(panel, data, draw);
    run.unpacked ??= {
      places: unpack(run.places),
      targets: unpack(run.targets),
      strengths: unpack(run.strengths),
    };
    const times = run.windows.map(([, first, last]) => Coterie.nameRounds(first, last));
    const at = panel.slider("time", "Time", times, draw, 900);
    const bins = run.bins[run.windows[at][0]];
    const count = bins.clusters.length;
    const label = data.strategies[run.strategy].label;
    const binned = bins.peers.some((peers) => peers.length > 1);
    const poisoned = binned ? [] : run.poisoned;
    panel.legend([
      ...data.clusters.map(({ name, colour: hue }) => ({ name, colour: hue, shape: "dot" })),
      ...(poisoned.length ? [{ name: "poisoned", colour: colour("quiet"), shape: "ring" }] : []),
    ]);
    panel.graph ??= drawing();
    panel.drawing(panel.graph.whole, {
      name: "graph",
      alt: `Graph of ${count} ${binned ? "groups of peers" : "peers"} under ${label}, ${times[at]}: ${describeShare()}`,
    });
    move(panel.graph, placesAt(at));
    panel.setText(
      `${label}, seed ${run.seed}, ${times[at]}. ${describeShare()} A line shows ` +
        (run.from_probabilities[at]
          ? "the probability that a peer samples the other next"
          : "the share of a peer's received models that came from the other") +
        `. Each peer has its four strongest lines. ${binned ? "A dot is several peers of one cluster. " : ""}${Coterie.listWithout(data)}`,
    );

    function drawing() {
      const whole = svg("svg", { viewBox: "0 0 700 560", class: "drawing" });
      const lines = svg("g");
      const dots = svg("g");
      whole.append(lines, dots);
      return { whole, lines, dots, places: null, frame: null };
    }

    function placesAt(time) {
      const size = run.places.shape[1];
      return Array.from({ length: count }, (_, node) => {
        const place = (time * size + node) * 2;
        return [40 + run.unpacked.places[place] * 0.62, 20 + run.unpacked.places[place + 1] * 0.52];
      });
    }

    function edges() {
      const [, size, each] = run.targets.shape;
      return Array.from({ length: count * each }, (_, n) => {
        const place = at * size * each + n;
        const strength = run.unpacked.strengths[place] / 255;
        return { from: Math.floor(n / each), to: run.unpacked.targets[place], strength };
      }).filter(({ strength }) => strength > 0.02);
    }

    function describeShare() {
      const found = edges();
      const total = found.reduce((sum, { strength }) => sum + strength, 0);
      const same = found
        .filter(({ from, to }) => bins.clusters[from] === bins.clusters[to])
        .reduce((sum, { strength }) => sum + strength, 0);
      if (total && new Set(bins.clusters).size < 2) return "";
      return total
        ? `${Math.round((100 * same) / total)}% of these preferences are within a true cluster.`
        : "No peer has a preference yet.";
    }

    /* Draw the dots and lines of this time, then move them from their last places. */
    function move(graph, target) {
      cancelAnimationFrame(graph.frame);
      const found = edges().sort((one, other) => one.strength - other.strength);
      const radius = (count > 60 ? 6 : 8) * (panel.element.clientWidth < 500 ? 1.5 : 1);
      graph.lines.replaceChildren(
        ...found.map(({ from, to, strength }) => {
          const same = bins.clusters[from] === bins.clusters[to];
          const hue = same ? data.clusters[bins.clusters[from]].colour : colour("quiet");
          return svg("line", {
            stroke: hue,
            "stroke-width": 0.6 + 2.6 * strength,
            "stroke-opacity": 0.12 + 0.75 * strength,
          });
        }),
      );
      graph.dots.replaceChildren(
        ...bins.clusters.map((cluster, place) => {
          const hue = data.clusters[cluster].colour;
          const look = poisoned.includes(bins.peers[place][0])
            ? { r: radius - 1.5, fill: colour("card"), stroke: hue, "stroke-width": 3 }
            : { r: radius, fill: hue, stroke: colour("card"), "stroke-width": 1.5 };
          const dot = svg("circle", look);
          const title = svg("title");
          title.textContent = Coterie.nameBin(bins, place, data.clusters, run.poisoned);
          dot.append(title);
          return dot;
        }),
      );
      const still =
        !graph.places ||
        graph.places.length !== count ||
        matchMedia("(prefers-reduced-motion: reduce)").matches;
      const start = still ? target : graph.places;
      const begun = performance.now();
      const step = (now) => {
        const share = still ? 1 : Math.min(1, Math.max(0, (now - begun) / 600));
        const eased = share * share * (3 - 2 * share);
        graph.places = target.map(([x, y], n) => [
          start[n][0] + (x - start[n][0]) * eased,
          start[n][1] + (y - start[n][1]) * eased,
        ]);
        place(graph, found);
        if (share < 1 && graph.whole.isConnected) graph.frame = requestAnimationFrame(step);
      };
      step(begun);
    }

    function place(graph, found) {
      [...graph.dots.children].forEach((dot, n) => {
        dot.setAttribute("cx", graph.places[n][0].toFixed(1));
        dot.setAttribute("cy", graph.places[n][1].toFixed(1));
      });
      [...graph.lines.children].forEach((line, n) => {
        const { from, to } = found[n];
        for (const [key, value] of [
          ["x1", graph.places[from][0]],
          ["y1", graph.places[from][1]],
          ["x2", graph.places[to][0]],
          ["y2", graph.places[to][1]],
        ])
          line.setAttribute(key, value.toFixed(1));
      });
    }
  },
});
