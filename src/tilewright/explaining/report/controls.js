"use strict";
// Swizzles: the slider shows one picture.
const mode = document.getElementById("swizzle-mode");
mode.addEventListener("input", () => {
  document.querySelectorAll(".mode").forEach((panel, index) => {
    panel.hidden = index !== Number(mode.value);
    if (!panel.hidden) document.getElementById("swizzle-said").textContent = panel.dataset.name;
  });
});

// Fragments: all that a lane holds stands out.
const lane = document.getElementById("lane");
if (lane) {
  const cells = [...document.querySelectorAll(".matrix td")].map((cell) => [cell, cell.dataset.lanes.split(" ")]);
  const show = () => {
    const counts = new Map();
    for (const [cell, lanes] of cells) {
      const held = lanes.includes(lane.value);
      cell.classList.toggle("held", held);
      const name = cell.closest("table").dataset.matrix;
      counts.set(name, (counts.get(name) || 0) + held);
    }
    const said = [...counts].map(([name, count]) => `${count} of ${name}`).join(", ");
    document.getElementById("lane-said").textContent = `lane ${lane.value} holds ${said}`;
  };
  for (const [cell, lanes] of cells) {
    cell.addEventListener("pointerenter", () => {
      lane.value = lanes[0];
      show();
    });
  }
  lane.addEventListener("input", show);
  show();
}

// Time line: what goes on at a clock.
const clock = document.getElementById("clock");
if (clock) {
  const spans = JSON.parse(document.getElementById("spans").textContent);
  const line = document.getElementById("playhead");
  const place = line.ownerSVGElement.dataset;
  const show = () => {
    const now = Number(clock.value);
    const x = Number(place.left) + (Number(place.width) * now) / Number(clock.max);
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    const going = { load: 0, multiply: 0, store: 0, wait: 0 };
    for (const [kind, begin, end] of spans) if (begin <= now && now < end) going[kind] += 1;
    const busy = going.multiply ? "the tensor cores multiply" : "the tensor cores do nothing";
    document.getElementById("clock-said").textContent =
      `clock ${now}: ${busy}; ${going.load} loads and ${going.store} stores under way, ${going.wait} warps wait`;
  };
  clock.addEventListener("input", show);
  show();
}
