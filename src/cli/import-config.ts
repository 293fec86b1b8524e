import { open } from 'node:fs/promises'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import { type ConfigFormat, formatOfFile, parseConfigText } from './config-text.ts'

/** One server of an MCP client's configuration, in our own form. */
export type ImportedServer = Readonly<{ name: string; enabled: boolean }> &
  (
    | Readonly<{
        transport: 'stdio'
        command: string
        args: readonly string[]
        env: Readonly<Record<string, string>>
        cwd?: string
      }>
    | Readonly<{ transport: 'http'; url: string; headers: Readonly<Record<string, string>> }>
  )

/** `error`: the server at `path` was omitted. `note`: it was imported, and a person should check it. */
export type ImportProblem = Readonly<{ path: string; severity: 'error' | 'note'; message: string }>

export type ImportResult = Readonly<{ servers: readonly ImportedServer[]; problems: readonly ImportProblem[] }>

const SERVERS_MAX = 1_000
const STDIO_TYPES = ['stdio', 'local']
const HTTP_TYPES = ['http', 'streamable-http', 'streamablehttp', 'streamable_http', 'remote']

type Fields = Readonly<Record<string, unknown>>

class EntryProblem extends Error {
  readonly path: string
  constructor(path: string, message: string) {
    super(message)
    this.path = path
  }
}

export const readClientConfig = async (file: string): Promise<ImportResult> => resultOf(await readConfigFile(file))

/** What the file says, before anything is made of it. */
export async function readConfigFile(file: string): Promise<unknown> {
  const handle = await open(file, 'r').catch((error: NodeJS.ErrnoException) => {
    throw new AppError('ERR_NOT_FOUND', `Cannot open ${file} (${error.code}). Check the path.`, { file })
  })
  try {
    const found = await handle.stat()
    if (!found.isFile())
      throw new AppError('ERR_INVALID_INPUT', `${file} is not a file. Give the path of one.`, { file })
    if (found.size > limits.importFileBytesMax) {
      throw new AppError('ERR_TOO_LARGE', `${file} is larger than the limit of ${limits.importFileBytesMax} bytes.`, {
        file,
      })
    }
    return parseConfigText(await handle.readFile('utf8'), formatOfFile(file))
  } finally {
    await handle.close()
  }
}

/**
 * Accepts `mcpServers` (Claude Desktop and Code, Cursor, Windsurf, Gemini CLI; as a list Continue), `servers` and `mcp.servers`
 * (VS Code), `context_servers` (Zed), `mcp_servers` (Codex), `mcp` (opencode, Kilo), and the projects of Claude Code's own file.
 * Throws only if the text is not of its format; a problem with a server is reported at its path. A repeated name is omitted: the
 * first one counts.
 */
export const parseClientConfig = (text: string, format: ConfigFormat = 'json'): ImportResult =>
  resultOf(parseConfigText(text, format))

function resultOf(config: unknown): ImportResult {
  const servers = new Map<string, ImportedServer>()
  const problems: ImportProblem[] = []
  const sections = findSections(config)
  if (sections.length === 0) {
    const message =
      'no servers here: expected "mcpServers" (Claude, Cursor, Continue), "servers" (VS Code), "mcp_servers" (Codex) or "mcp" (opencode)'
    problems.push({ path: '$', severity: 'error', message })
  }
  for (const section of sections) {
    const entries = entriesOf(section)
    if (entries === undefined) {
      problems.push({ path: section.path, severity: 'error', message: 'expected an object of servers by name' })
      continue
    }
    for (const { name, value, path } of entries) {
      const note = (at: string, message: string) => problems.push({ path: at, severity: 'note', message })
      try {
        if (servers.has(name)) throw new EntryProblem(path, 'an earlier server has this name; that one is used')
        if (servers.size >= SERVERS_MAX) throw new EntryProblem(path, `more than ${SERVERS_MAX} servers`)
        servers.set(name, readServer(name, value, path, note))
      } catch (error) {
        if (!(error instanceof EntryProblem)) throw error
        problems.push({ path: error.path, severity: 'error', message: error.message })
      }
    }
  }
  return { servers: [...servers.values()], problems }
}

type Section = Readonly<{ path: string; value: unknown }>
type Entry = Readonly<{ name: string; value: unknown; path: string }>

/** By name, or as a list of servers that each say theirs. */
function entriesOf({ path, value }: Section): Entry[] | undefined {
  if (isFields(value)) {
    return Object.entries(value).map(([name, entry]) => ({ name, value: entry, path: member(path, name) }))
  }
  if (!Array.isArray(value)) return undefined
  return value.map((entry: unknown, index) => {
    const name = isFields(entry) && typeof entry['name'] === 'string' ? entry['name'] : ''
    return { name, value: entry, path: `${path}[${index}]` }
  })
}

function findSections(config: unknown): Section[] {
  if (!isFields(config)) return []
  const sections: Section[] = []
  const take = (fields: unknown, name: string, path: string): void => {
    if (isFields(fields) && fields[name] !== undefined) sections.push({ path: member(path, name), value: fields[name] })
  }
  take(config, 'mcpServers', '')
  take(config, 'servers', '')
  const { mcp } = config
  if (isFields(mcp) && mcp['servers'] !== undefined) take(mcp, 'servers', 'mcp')
  else take(config, 'mcp', '')
  take(config, 'mcp_servers', '')
  take(config, 'context_servers', '')
  if (isFields(config['projects'])) {
    for (const [project, fields] of Object.entries(config['projects'])) {
      take(fields, 'mcpServers', member('projects', project))
    }
  }
  return sections
}

type Note = (path: string, message: string) => void

function readServer(name: string, value: unknown, path: string, note: Note): ImportedServer {
  if (!/^[^\p{Cc}]{1,128}$/u.test(name) || name.trim() !== name) {
    throw new EntryProblem(
      path,
      'a name must have 1 to 128 characters, no control characters, and no blanks at its start or end',
    )
  }
  if (!isFields(value)) throw new EntryProblem(path, 'expected an object')
  const shared = { name, enabled: value['disabled'] !== true && value['enabled'] !== false }
  const transport = transportOf(value, path, note)
  if (transport.kind === 'http') {
    for (const field of ['bearer_token_env_var', 'env_http_headers']) {
      if (value[field] !== undefined) note(member(path, field), 'variables are not read; put their values into headers')
    }
    const options = isFields(value['requestOptions']) ? value['requestOptions'] : {}
    const written = value['headers'] ?? value['http_headers'] ?? options['headers']
    const headers = readTexts(written, member(path, 'headers'), note)
    return {
      ...shared,
      transport: 'http',
      url: readUrl(value[transport.field], member(path, transport.field)),
      headers,
    }
  }
  const { command, args } = readCommand(value, path, note)
  if (command === '') throw new EntryProblem(member(path, 'command'), 'must not be empty')
  if (value['envFile'] !== undefined) note(member(path, 'envFile'), 'the file is not read; name its variables in env')
  return {
    ...shared,
    transport: 'stdio',
    command,
    args,
    env: readTexts(value['env'] ?? value['environment'], member(path, 'env'), note),
    ...(value['cwd'] === undefined ? {} : { cwd: readText(value['cwd'], member(path, 'cwd'), note) }),
  }
}

/** One string with separate arguments, or one list. */
function readCommand(fields: Fields, path: string, note: Note): { command: string; args: string[] } {
  const at = member(path, 'command')
  if (!Array.isArray(fields['command'])) {
    return {
      command: readText(fields['command'], at, note),
      args: readArgs(fields['args'], member(path, 'args'), note),
    }
  }
  const [command = '', ...args] = readArgs(fields['command'], at, note)
  return { command, args }
}

/** Clients name the address `url`, `serverUrl` (Windsurf) or `httpUrl` (Gemini CLI). */
function transportOf(fields: Fields, path: string, note: Note): { kind: 'stdio' } | { kind: 'http'; field: string } {
  const field = ['url', 'httpUrl', 'serverUrl'].find((candidate) => fields[candidate] !== undefined)
  const written = fields['type'] ?? fields['transport']
  if (written === undefined) {
    if (field !== undefined && fields['command'] !== undefined) {
      throw new EntryProblem(path, `has both command and ${field}; add "type" to say which one is meant`)
    }
    if (field !== undefined) return { kind: 'http', field }
    if (fields['command'] !== undefined) return { kind: 'stdio' }
    throw new EntryProblem(path, 'needs a command (stdio) or a url (http)')
  }
  const type = typeof written === 'string' ? written.toLowerCase() : ''
  if (STDIO_TYPES.includes(type)) return { kind: 'stdio' }
  if (type === 'sse')
    note(path, 'HTTP+SSE is an old transport; it is used if the address does not answer Streamable HTTP')
  else if (!HTTP_TYPES.includes(type)) throw new EntryProblem(member(path, 'type'), 'expected stdio or http')
  return { kind: 'http', field: field ?? 'url' }
}

function readUrl(value: unknown, path: string): string {
  if (value === undefined) throw new EntryProblem(path, 'is missing')
  const isWeb = typeof value === 'string' && /^https?:$/.test(URL.parse(value)?.protocol ?? '')
  if (!isWeb) throw new EntryProblem(path, 'expected an address that begins with http:// or https://')
  return value
}

function readArgs(value: unknown, path: string, note: Note): string[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw new EntryProblem(path, 'expected a list of strings')
  return value.map((item, index) => readText(item, `${path}[${index}]`, note))
}

function readTexts(value: unknown, path: string, note: Note): Record<string, string> {
  if (value === undefined || value === null) return {}
  if (!isFields(value)) throw new EntryProblem(path, 'expected an object of strings')
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      if (!/^[^=\s\p{Cc}]+$/u.test(key)) throw new EntryProblem(member(path, key), 'is not a usable name')
      return [key, readText(item, member(path, key), note)]
    }),
  )
}

/** Numbers and booleans are read as typed. */
function readText(value: unknown, path: string, note: Note): string {
  if (value === undefined) throw new EntryProblem(path, 'is missing')
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (typeof value !== 'string') throw new EntryProblem(path, 'expected a text')
  if (value.includes('\0')) throw new EntryProblem(path, 'must not contain a NUL character')
  if (/\$\{input:[^}]*\}/.test(value))
    note(path, 'refers to an input that the editor asks for; replace it with the value')
  if (/\$\{\{[^}]*\}\}|\{(env|file):[^}]*\}/.test(value))
    note(path, 'refers to a variable of the client; replace it with the value')
  return value
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const member = (path: string, name: string): string => {
  const step = /^[A-Za-z_][\w-]*$/.test(name) ? name : undefined
  if (step === undefined) return `${path}[${JSON.stringify(name)}]`
  return path === '' ? step : `${path}.${step}`
}
