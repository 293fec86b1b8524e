import { requireWorkspacePath } from '../../contract/workspace-path.ts'
import type { AccessRequest, RequestedCommand, RequestedRedirection } from './rules.ts'
import { type Redirection, readShellLine } from './shell-line.ts'

/** Which arguments of a tool a security context looks at, by their names. */
export type Governed = Readonly<{
  /** Paths in a workspace. */
  paths?: readonly string[]
  /** Paths in a workspace if they begin with a slash, else addresses of other machines. */
  sources?: readonly string[]
  /** A line for a shell, or a program if `args` is set. */
  command?: string
  args?: string
  /** Its environment variables. Some, such as PATH, make a list of commands meaningless, and no complete list of them exists. */
  env?: string
  /** What a shell opens for such a line, as if by these tools, from the folder in that argument. */
  opens?: Readonly<{ read: string; write: string; folder: string; folderDefault?: string }>
  url?: string
  /** It runs commands or reaches hosts in a way that no list can check. */
  opaque?: 'commands'
}>

/** The access that a call requests, from its arguments. Paths with `..` and the like are refused here. */
export function readAccessRequest(
  tool: string,
  governed: Governed | undefined,
  input: Readonly<Record<string, unknown>>,
): AccessRequest {
  const isPath = (field: string): boolean => String(input[field]).startsWith('/')
  const paths = [...(governed?.paths ?? []), ...(governed?.sources ?? []).filter(isPath)]
    .filter((field) => typeof input[field] === 'string')
    .map((field) => requireWorkspacePath(field, input[field] as string))
  const url = governed?.url === undefined ? undefined : input[governed.url]
  return { tool, paths, hosts: typeof url === 'string' ? hostsOf(url) : [], ...commandsOf(governed, input) }
}

/** Text that is not an address has no host that a list could contain; the tool that fetches it says so. */
const hostsOf = (url: string): readonly string[] => {
  const parsed = URL.parse(url)
  return [parsed === null ? '' : parsed.hostname]
}

function commandsOf(
  governed: Governed | undefined,
  input: Readonly<Record<string, unknown>>,
): Pick<AccessRequest, 'commands' | 'redirections' | 'undecidable'> {
  if (governed?.opaque === 'commands') {
    return { commands: [], redirections: [], undecidable: 'this tool cannot be checked' }
  }
  const sets = setsVariables(governed, input)
  const supplied = governed?.command === undefined ? undefined : input[governed.command]
  const args = governed?.args === undefined ? undefined : input[governed.args]
  if (typeof supplied === 'string' && Array.isArray(args)) {
    return {
      commands: [{ command: supplied, firstArgument: args[0] as string | undefined }],
      redirections: [],
      ...sets,
    }
  }
  const lines = typeof supplied === 'string' ? [supplied] : Array.isArray(supplied) ? (supplied as string[]) : []
  const commands: RequestedCommand[] = []
  const redirections: RequestedRedirection[] = []
  for (const line of lines) {
    const read = readShellLine(line)
    if ('undecidable' in read) return { commands: [], redirections: undefined, undecidable: read.undecidable }
    const own = read.commands.map(({ words }) => ({ command: words[0]?.text, firstArgument: words[1]?.text }))
    commands.push(...own)
    redirections.push(...read.redirections.map((one) => requestedRedirection(governed!, input, own, one)))
  }
  return { commands, redirections, ...sets }
}

/** As in a line, where an assignment cannot be judged either. */
function setsVariables(
  governed: Governed | undefined,
  input: Readonly<Record<string, unknown>>,
): Pick<AccessRequest, 'undecidable'> {
  const env = governed?.env === undefined ? undefined : input[governed.env]
  const isSet = typeof env === 'object' && env !== null && Object.keys(env).length > 0
  return isSet ? { undecidable: `it sets variables in ${governed!.env}` } : {}
}

/** After these, or an unknown command, a line may be in another folder. */
const moving: ReadonlySet<string> = new Set('. builtin cd chdir command eval popd pushd source'.split(' '))

function requestedRedirection(
  { opens, command: field }: Governed,
  input: Readonly<Record<string, unknown>>,
  commands: readonly RequestedCommand[],
  { path, access }: Redirection,
): RequestedRedirection {
  const tool = opens?.[access] ?? ''
  if (path === undefined) return { path, access, tool }
  if (path.startsWith('/')) return { path: requireWorkspacePath(field!, path), access, tool }
  const stays = commands.every(({ command }) => command !== undefined && !moving.has(command))
  const folder = opens === undefined ? undefined : (input[opens.folder] ?? opens.folderDefault)
  if (!stays || typeof folder !== 'string') return { path: undefined, access, tool }
  return { path: requireWorkspacePath(field!, `${folder}/${path}`), access, tool }
}
