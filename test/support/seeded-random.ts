/** Numbers that a seed repeats: for the moments and choices of a test that should differ from run to run. */
export type SeededRandom = Readonly<{ seed: number; below(limit: number): number }>

/** The seed is `CASTELLAN_SEED` where one is given, to repeat a run that failed. */
export function seededRandom(): SeededRandom {
  const input = Number(process.env['CASTELLAN_SEED'])
  const seed = input > 0 ? input : Date.now() % 1_000_000_007
  let state = seed >>> 0
  return {
    seed,
    below(limit) {
      state = (state + 0x6d2b79f5) >>> 0
      let mixed = Math.imul(state ^ (state >>> 15), state | 1)
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
      return ((mixed ^ (mixed >>> 14)) >>> 0) % limit
    },
  }
}
