import { createServer as createHttpServer } from 'node:http'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type Attachment, attach } from '../../src/app/ownership/attach.ts'
import { bridgeSession } from '../../src/app/ownership/bridge-session.ts'
import { createHttpRelay } from '../../src/app/ownership/http-relay.ts'
import type { Owner } from '../../src/app/ownership/owner-server.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import type { Logger } from '../../src/kernel/logger.ts'
import { type LineTransport, stdioLines } from '../../src/mcp/line-transport.ts'

/**
 * A process with a toy state, for tests of ownership: `ownership-process.ts stdio|serve DATA_DIR`.
 * `serve` prints its port; `stdio` speaks a little MCP. Every entry is written under the owner's epoch: a writer that finds
 * another epoch than its own is a second owner, and says so in the table `violations`.
 */
const [, , role, dataDir = ''] = process.argv

const logger: Logger = {
  debug() {},
  info: (message, fields) => void process.stderr.write(`${JSON.stringify({ message, pid: process.pid, ...fields })}\n`),
  warn() {},
  error: (message, fields) =>
    void process.stderr.write(`${JSON.stringify({ message, pid: process.pid, ...fields })}\n`),
}

type Entries = Readonly<{ append(key: string): number; count(): number; close(): void }>

function openEntries(): Entries {
  const database = new DatabaseSync(join(dataDir, 'state.db'), { timeout: 1000 })
  database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, key TEXT NOT NULL, pid INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS violations (pid INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS epoch (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), value INTEGER NOT NULL);
    INSERT INTO epoch VALUES (1, 1) ON CONFLICT DO UPDATE SET value = value + 1;`)
  const readEpoch = database.prepare('SELECT value FROM epoch')
  const epoch = readEpoch.get()?.['value']
  const insert = database.prepare('INSERT INTO entries (key, pid) VALUES (?, ?)')
  const violate = database.prepare('INSERT INTO violations VALUES (?)')
  const count = database.prepare('SELECT count(*) AS total FROM entries')
  return {
    append(key) {
      database.exec('BEGIN IMMEDIATE')
      if (readEpoch.get()?.['value'] !== epoch) violate.run(process.pid)
      const { lastInsertRowid } = insert.run(key, process.pid)
      database.exec('COMMIT')
      return Number(lastInsertRowid)
    },
    count: () => Number(count.get()?.['total']),
    close: () => database.close(),
  }
}

async function becomeOwner(): Promise<Owner> {
  const entries = openEntries()
  const http = createHttpServer((request, response) => {
    if (request.url === '/hang') return
    const answer =
      request.method === 'POST' ? { id: entries.append(`http-${request.url}`) } : { count: entries.count() }
    response.end(JSON.stringify({ ...answer, pid: process.pid, remote: request.socket.remoteAddress }))
  })
  http.emit('listening')
  return {
    mode: 'FULL',
    serveLines: (transport) => serveSession(transport, entries),
    serveHttp: (socket) => {
      http.emit('connection', socket)
      socket.resume()
    },
    async close() {
      http.closeAllConnections()
      http.emit('close')
      entries.close()
    },
  }
}

type Incoming = Readonly<{
  id?: number | string
  method?: string
  params?: { name?: string; arguments?: { key?: string } }
}>

/** Refuses everything before the handshake, so that a forgotten replay is seen. */
function serveSession(transport: LineTransport, entries: Entries): void {
  let isInitialized = false
  let level: unknown = 'none'
  const call = (name: string | undefined, key = ''): unknown => {
    if (name === 'append') return { id: entries.append(key), pid: process.pid }
    if (name === 'info') return { count: entries.count(), pid: process.pid, level }
    return undefined
  }
  transport.onClose(() => transport.close())
  transport.onLine((line) => {
    const { id, method, params } = JSON.parse(line) as Incoming
    if (method === 'notifications/initialized') isInitialized = true
    if (id === undefined) return
    const respond = (body: object): void => transport.send(JSON.stringify({ jsonrpc: '2.0', id, ...body }))
    if (method === 'initialize') respond({ result: { protocolVersion: '2025-11-25' } })
    else if (!isInitialized) respond({ error: { code: -32600, message: 'not initialized' } })
    else if (method === 'logging/setLevel') {
      level = params
      respond({ result: {} })
    } else if (method === 'tools/call') {
      const answer = call(params?.name, params?.arguments?.key)
      if (answer !== undefined) respond({ result: { structuredContent: answer } })
    } else respond({ result: { method, pid: process.pid } })
  })
}

function serve(attachment: Attachment): void {
  const relay = createHttpRelay({ attachment, logger, requireKeys: false })
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, relay)
  server.listen(0, '127.0.0.1', () => {
    const address = server.address()
    if (address !== null && typeof address === 'object')
      process.stdout.write(`${JSON.stringify({ port: address.port })}\n`)
  })
}

const attachment = await attach({ dataDir, version: '0.0.0', becomeOwner, logger, clock: systemClock })
const leave = async (): Promise<void> => {
  await attachment.close()
  process.exit(0)
}
process.on('SIGTERM', leave)
if (role === 'serve') serve(attachment)
else {
  const client = stdioLines(process.stdin, process.stdout)
  const isReadOnlyTool = (name: string): boolean => name === 'info'
  const bridge = bridgeSession({ client, attachment, hello: { transport: 'stdio' }, isReadOnlyTool, logger })
  await bridge.closed
  await leave()
}
