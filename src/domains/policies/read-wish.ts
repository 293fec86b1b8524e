import { requireWorkspacePath } from '../../contract/workspace-path.ts'
import type { Wish, WishedCommand } from './rules.ts'
import { readShellLine } from './shell-line.ts'

/** Which arguments of a tool a security context looks at, by their names. */
export type Governed = Readonly<{
  /** Paths in a workspace. */
  paths?: readonly string[]
  /** A line for a shell, or a program when `args` is given. */
  command?: string
  args?: string
  url?: string
  /** It runs commands or reaches hosts in a way that no list can be held against. */
  opaque?: 'commands'
}>

/** What a call wants, read from its arguments. Paths that climb and the like are refused here. */
export function readWish(tool: string, governed: Governed | undefined, input: Readonly<Record<string, unknown>>): Wish {
  const paths = (governed?.paths ?? [])
    .filter((field) => typeof input[field] === 'string')
    .map((field) => requireWorkspacePath(field, input[field] as string))
  const url = governed?.url === undefined ? undefined : input[governed.url]
  return { tool, paths, hosts: typeof url === 'string' ? hostsOf(url) : [], ...commandsOf(governed, input) }
}

/** What is no address has no host that a list could have; who fetches it says so. */
const hostsOf = (url: string): readonly string[] => {
  const parsed = URL.parse(url)
  return [parsed === null ? '' : parsed.hostname]
}

function commandsOf(
  governed: Governed | undefined,
  input: Readonly<Record<string, unknown>>,
): Pick<Wish, 'commands' | 'undecidable'> {
  if (governed?.opaque === 'commands') return { commands: [], undecidable: 'this tool cannot be checked' }
  const given = governed?.command === undefined ? undefined : input[governed.command]
  const args = governed?.args === undefined ? undefined : input[governed.args]
  if (typeof given === 'string' && Array.isArray(args)) {
    return { commands: [{ command: given, firstArgument: args[0] as string | undefined }] }
  }
  const lines = typeof given === 'string' ? [given] : Array.isArray(given) ? (given as string[]) : []
  const commands: WishedCommand[] = []
  for (const line of lines) {
    const read = readShellLine(line)
    if ('undecidable' in read) return { commands: [], undecidable: read.undecidable }
    commands.push(...read.commands.map(({ words }) => ({ command: words[0]?.text, firstArgument: words[1]?.text })))
  }
  return { commands }
}
