// Colours: Okabe and Ito's for what is told apart, the page's own for the rest.

const LIGHT = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f7a00", "#555555",
               "#7f3c8d"];
const DARK = ["#4fa8dd", "#e69f00", "#2bbf94", "#dd94bd", "#8fd0f5", "#f0803c", "#d8c63a", "#b8b8b8",
              "#b77fc4"];

const darkness = matchMedia("(prefers-color-scheme: dark)");
// Colours of the style sheet, which are asked for a hundred times in a drawing.
const kept = new Map();
darkness.addEventListener("change", () => kept.clear());

/** The colour of the nth head, eigenvector or algorithm. */
export const colour = (number) => (darkness.matches ? DARK : LIGHT)[number % LIGHT.length];

/** A colour of the page by its name in the style sheet. */
export function own(name) {
  if (!kept.has(name))
    kept.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return kept.get(name);
}

/** Blue below zero, paper at zero, red above: `share` from −1 to 1. */
export function diverging(share) {
  const dark = darkness.matches;
  const middle = dark ? [34, 38, 44] : [247, 247, 244];
  const end = share < 0 ? (dark ? [96, 170, 235] : [5, 88, 150])
                        : (dark ? [240, 130, 90] : [178, 52, 16]);
  const size = Math.min(Math.abs(share), 1) ** 0.8;
  return `rgb(${middle.map((one, k) => Math.round(one + (end[k] - one) * size)).join(",")})`;
}
