/**
 * The meaning of a tool name that a model sees. Programs prefix our tools with the name that a person gave our server, each in
 * its own way: `mcp__castellan__x`, `mcp_castellan_x`, `castellan__x`, `castellan_x`, `castellan-x`.
 */
export type NameReading = Readonly<{
  name: string
  /**
   * `server`: it has the prefix of our server. `exact`: it has no prefix. `loose`: it has another prefix, which may be our server
   * under another name, or another server with a tool of the same name.
   */
  kind: 'server' | 'exact' | 'loose'
}>

/** In the order in which they are tried. */
export function readingsOf(name: string, serverNames: readonly string[]): readonly NameReading[] {
  const readings: NameReading[] = []
  for (const server of serverNames) {
    for (const prefix of [`mcp__${server}__`, `mcp_${server}_`, `${server}__`, `${server}_`, `${server}-`]) {
      if (name.startsWith(prefix)) readings.push({ name: name.slice(prefix.length), kind: 'server' })
    }
  }
  readings.push({ name, kind: 'exact' })
  const unwrapped = name.startsWith('mcp__') ? name.slice('mcp__'.length) : name
  for (const separator of ['__', '_', '-', '.']) {
    const at = unwrapped.indexOf(separator)
    if (at > 0) readings.push({ name: unwrapped.slice(at + separator.length), kind: 'loose' })
  }
  return readings
}
