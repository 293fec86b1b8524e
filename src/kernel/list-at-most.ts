/** The first `max` rows of a list, and whether there are more. One row more than shown is requested. */
export async function listAtMost<Row>(
  max: number,
  list: (limit: number) => Promise<readonly Row[]>,
): Promise<Readonly<{ rows: readonly Row[]; truncated: boolean }>> {
  const found = await list(max + 1)
  return { rows: found.slice(0, max), truncated: found.length > max }
}
