/**
 * Aligns two texts by what they have in common: a longest common subsequence of their tokens, after
 * Wagner and Fischer 1974, "The string-to-string correction problem".
 */

/**
 * For each position of the first text the one of the second that belongs to it, or null.
 *
 * Tokens of the common subsequence belong together. Between two of them, tokens that were replaced
 * by as many others do too; tokens that were put in or left out belong to none.
 * @param {{text: string}[]} first tokens
 * @param {{text: string}[]} second tokens
 * @returns {(number|null)[]}
 */
export function aligned(first, second) {
  const pairs = [...common(first, second), [first.length, second.length]];
  const found = new Array(first.length).fill(null);
  let [from, to] = [0, 0];
  for (const [one, other] of pairs) {
    if (one - from === other - to) for (let at = from; at < one; at += 1) found[at] = to + at - from;
    if (one < first.length) found[one] = other;
    [from, to] = [one + 1, other + 1];
  }
  return found;
}

/** The pairs of a longest common subsequence, in order. */
function common(first, second) {
  const same = (one, other) => first[one].text === second[other].text;
  const width = second.length + 1;
  // How many pairs the rest of both texts has, from each two places on.
  const counts = new Uint16Array((first.length + 1) * width);
  for (let one = first.length - 1; one >= 0; one -= 1) {
    for (let other = second.length - 1; other >= 0; other -= 1) {
      const below = counts[(one + 1) * width + other];
      const right = counts[one * width + other + 1];
      counts[one * width + other] = same(one, other)
        ? counts[(one + 1) * width + other + 1] + 1
        : Math.max(below, right);
    }
  }
  const pairs = [];
  let [one, other] = [0, 0];
  while (one < first.length && other < second.length) {
    if (same(one, other)) {
      pairs.push([one, other]);
      [one, other] = [one + 1, other + 1];
    } else if (counts[(one + 1) * width + other] >= counts[one * width + other + 1]) one += 1;
    else other += 1;
  }
  return pairs;
}
