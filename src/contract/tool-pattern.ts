/** The prefix of the names that a pattern such as `fs.*` or `server__*` matches; undefined for the name of one tool. */
export const beginningOf = (pattern: string): string | undefined =>
  pattern.endsWith('.*') || pattern.endsWith('__*') ? pattern.slice(0, -1) : undefined
