/** Printed once `serve` listens: its addresses, and the configuration of clients. */
type Announcement = Readonly<{
  title: string
  version: string
  mode: string
  /** An address that works as it stands, without a path. */
  origin: string
  /** Other addresses of the same server; only if it listens on every address. */
  otherOrigins: readonly string[]
  /** Where it listens, if clients use another address. */
  listensAt: readonly string[]
  /** Others on the network can read what passes. */
  isReadable: boolean
  state: string
  requireKeys: boolean
  hasPeople: boolean
  stdioCommand: string
}>

export const KEY_VARIABLE = 'CASTELLAN_API_KEY'

const READABLE =
  'Warning: this is plain HTTP, so others on the network can read keys and everything else that passes. Pass --tls-cert and --tls-key, or list the proxy that speaks TLS in trusted_proxies.'

export function announcementText(facts: Announcement): string {
  const url = `${facts.origin}/mcp`
  const also = facts.otherOrigins.map((origin) => `${origin}/mcp`)
  return [
    `${facts.title} ${facts.version} (${facts.mode})`,
    `  MCP      ${url}`,
    ...(also.length === 0 ? [] : [`  also at  ${also.join(', ')}`]),
    ...(facts.hasPeople ? [`  people   ${facts.origin}/sign-in, then ${facts.origin}/account`] : []),
    `  health   ${facts.origin}/health`,
    ...(facts.listensAt.length === 0 ? [] : [`  listens  ${facts.listensAt.join(', ')}`]),
    `  state    ${facts.state}`,
    ...(facts.isReadable ? ['', READABLE] : []),
    '',
    connectText(facts),
    `  Claude Code   claude mcp add --transport http castellan ${url}${facts.requireKeys ? ` --header "Authorization: Bearer $${KEY_VARIABLE}"` : ''}`,
    `  Cursor        .cursor/mcp.json   ${cursorConfig(url, facts.requireKeys)}`,
    `  VS Code       .vscode/mcp.json   ${codeConfig(url, facts.requireKeys)}`,
    `  over stdio    ${facts.stdioCommand}`,
    `  names         a client that refuses dots in names of tools: ${url}?names=safe, or --names safe over stdio`,
    '',
    'End with Ctrl-C.',
    '',
  ].join('\n')
}

function connectText({ requireKeys, hasPeople }: Announcement): string {
  if (!requireKeys) return 'Connect a client:'
  const signIn = hasPeople ? '; a client that supports OAuth needs none, and signs in in the browser' : ''
  return `Connect a client; ${KEY_VARIABLE} holds its API key (castellan keys create)${signIn}:`
}

function cursorConfig(url: string, requireKeys: boolean): string {
  const headers = requireKeys ? { headers: { Authorization: `Bearer \${env:${KEY_VARIABLE}}` } } : {}
  return inOneLine({ mcpServers: { castellan: { url, ...headers } } })
}

/** VS Code asks for the key once and stores it. */
function codeConfig(url: string, requireKeys: boolean): string {
  const server = { type: 'http', url }
  if (!requireKeys) return inOneLine({ servers: { castellan: server } })
  const id = 'castellan-key'
  return inOneLine({
    inputs: [{ id, type: 'promptString', description: 'Castellan API key', password: true }],
    servers: { castellan: { ...server, headers: { Authorization: `Bearer \${input:${id}}` } } },
  })
}

/** JSON on one line with spaces; strings stay unchanged. */
const inOneLine = (value: unknown): string =>
  JSON.stringify(value, null, 1)
    .replace(/\n */g, ' ')
    .replace(/\[ | \]/g, (match) => match.trim())

/** An argument as a shell takes it. */
export const shellQuoted = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
