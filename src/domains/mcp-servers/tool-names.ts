import { sha256Hex } from '../../kernel/hash.ts'

/** The longest name: some models and clients refuse longer ones. */
const TOOL_NAME_CHARS_MAX = 64
const SLUG_CHARS_MAX = 32
const SUFFIX_CHARS = 7
/** Prefixes of other names of ours. */
const reservedSlugs: ReadonlySet<string> = new Set(['agent', 'castellan', 'archestra'])

/** The prefix of a server's tool names: its own name, in a–z, 0–9 and `_`. */
export function slugOf(name: string, id: string): string {
  const plain = name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
    .slice(0, SLUG_CHARS_MAX)
    .replace(/_+$/, '')
  if (plain !== '' && !reservedSlugs.has(plain)) return plain
  return `${plain === '' ? 'server' : plain}_${digest(id)}`
}

/**
 * `<server>__<tool>`. A name that is too long, has other characters, or is taken ends in a digest of the server's id and the
 * tool's own name, so that it is stable.
 */
export function toolName(
  server: Readonly<{ id: string; slug: string }>,
  upstreamName: string,
  isTaken: (name: string) => boolean,
): string {
  const plain = upstreamName.replaceAll(/[^A-Za-z0-9_-]/g, '_')
  const full = `${server.slug}__${plain}`
  if (full.length <= TOOL_NAME_CHARS_MAX && plain === upstreamName && !isTaken(full)) return full
  const suffix = digest(`${server.id} ${upstreamName}`)
  return `${full.slice(0, TOOL_NAME_CHARS_MAX - SUFFIX_CHARS)}_${suffix}`
}

type Named = Readonly<{ id: string; name: string }>

/** The name where another tool in the same view has the first: stable, because the id is. */
export const nameBeside = (tool: Named): string => `${beginningBeside(tool)}${digest(tool.id)}`
const beginningBeside = ({ name }: Named): string => `${name.slice(0, TOOL_NAME_CHARS_MAX - SUFFIX_CHARS)}_`

/** Whether a view may show the tool under this name. Only a few of many tools need a digest for that. */
export const isNamed = (tool: Named, name: string): boolean =>
  tool.name === name || (name.startsWith(beginningBeside(tool)) && nameBeside(tool) === name)

const digest = (text: string): string => sha256Hex(text).slice(0, SUFFIX_CHARS - 1)
