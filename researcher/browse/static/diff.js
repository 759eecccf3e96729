// Differences of two texts, line by line (longest common subsequence).

const LINES_MAX = 1500;

/** [[mark, line], ...]: "+" only in `after`, "-" only in `before`, " " in both. */
export function differences(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  if (a.length > LINES_MAX || b.length > LINES_MAX) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push([" ", a[i++]]);
      j++;
    } else if (i < a.length && (j === b.length || common[i + 1][j] >= common[i][j + 1])) lines.push(["-", a[i++]]);
    else lines.push(["+", b[j++]]);
  }
  return lines;
}
