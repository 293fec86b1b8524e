/** What the names begin with that a pattern such as `fs.*` or `server__*` means; undefined for the name of one tool. */
export const beginningOf = (pattern: string): string | undefined =>
  pattern.endsWith('.*') || pattern.endsWith('__*') ? pattern.slice(0, -1) : undefined
