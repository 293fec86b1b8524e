import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, chownSync, constants, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'

/**
 * A throw-away PostgreSQL cluster: its own directory, its own free port, nothing shared with a server that may run here.
 *
 * 1. The server never runs as root; as root it is started as the user `postgres`.
 * 2. It syncs like a real one, and sorts text like a real one (by language, not by byte).
 * 3. It ends with the process that started it, however that ends: a keeper holds a pipe, and when the pipe closes it stops the
 *    server and removes the directory.
 */
export type PostgresCluster = Readonly<{
  /** Of the maintenance database; `createDatabase` makes others from it. */
  url: string
  stop(): Promise<void>
}>

const INSTALL_ROOT = '/usr/lib/postgresql'
const START_DEADLINE_MS = 180_000
/** Linux allows 107 bytes for the path of a socket. */
const SOCKET_FOLDER_CHARS_MAX = 80

/** The newest installed version that has what a cluster needs, or undefined. */
export function findPostgresBinaries(): string | undefined {
  if (!existsSync(INSTALL_ROOT)) return undefined
  const versions = readdirSync(INSTALL_ROOT).sort((a, b) => Number(b) - Number(a))
  return versions
    .map((version) => join(INSTALL_ROOT, version, 'bin'))
    .find((folder) => ['initdb', 'postgres'].every((program) => isExecutable(join(folder, program))))
}

/** `parent`: where its directory is made. */
export async function startPostgres(parent = tmpdir()): Promise<PostgresCluster> {
  const binaries = findPostgresBinaries()
  if (binaries === undefined) {
    throw new Error(
      `PostgreSQL's programs are missing under ${INSTALL_ROOT}. Install them with: apt-get install -y postgresql`,
    )
  }
  const owner = serverUser()
  const folder = mkdtempSync(join(parent, 'castellan-pg-'))
  if (owner.uid !== undefined) chownSync(folder, owner.uid, owner.gid!)
  try {
    return await startIn(folder, binaries, owner)
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

/** A new database in the cluster, empty or a copy of another that nobody is connected to; answers its URL. */
export async function createDatabase(clusterUrl: string, template = 'template1'): Promise<string> {
  databaseCount += 1
  const name = `suite_${process.pid}_${databaseCount}`
  // To copy the files takes half of what it takes to log every page.
  const statement = `CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY file_copy`
  await withClient(clusterUrl, (client) => client.query(statement))
  const url = new URL(clusterUrl)
  url.pathname = `/${name}`
  return url.href
}

/** Open connections to it are closed. */
export async function dropDatabase(url: string): Promise<void> {
  const cluster = new URL(url)
  const name = cluster.pathname.slice(1)
  cluster.pathname = '/postgres'
  await withClient(cluster.href, (client) => client.query(`DROP DATABASE ${name} WITH (FORCE)`))
}

export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

let databaseCount = 0

type ServerUser = { uid?: number; gid?: number }

async function startIn(folder: string, binaries: string, owner: ServerUser): Promise<PostgresCluster> {
  const data = join(folder, 'data')
  const options = { ...owner, cwd: folder, env: { PATH: process.env['PATH'], LC_ALL: 'C' } }
  execFileSync(
    join(binaries, 'initdb'),
    [
      ...['-D', data, '-U', 'castellan', '--auth=trust', '--encoding=UTF8', '--no-sync', '--no-instructions'],
      ...['--locale=C.UTF-8', '--locale-provider=icu', '--icu-locale=en-US'],
    ],
    { ...options, stdio: ['ignore', 'ignore', 'pipe'] },
  )
  const port = await freePort()
  const sockets = folder.length <= SOCKET_FOLDER_CHARS_MAX ? folder : ''
  const settings = {
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: sockets,
    fsync: 'on',
    // Nothing here lives long enough to need it, and it visits every database of the run once a minute.
    autovacuum: 'off',
    max_connections: 100,
    shared_buffers: '32MB',
    log_destination: 'stderr',
  }
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const log = join(folder, 'server.log')
  const keeper = spawn(
    '/bin/sh',
    ['-c', KEEPER, 'keeper', log, folder, join(binaries, 'postgres'), '-D', data, ...args],
    {
      ...options,
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    },
  )
  const url = `postgres://castellan@127.0.0.1:${port}/postgres`
  const stop = async () => {
    if (keeper.exitCode !== null || keeper.signalCode !== null) return
    const ended = once(keeper, 'exit')
    keeper.stdin!.end()
    await ended
  }
  try {
    await untilReady(url, keeper, log)
  } catch (error) {
    await stop()
    throw error
  }
  return { url, stop }
}

/** Reads until its input closes, then stops the server and removes its directory. */
const KEEPER = `log=$1; folder=$2; shift 2
"$@" >"$log" 2>&1 </dev/null &
server=$!
cat >/dev/null
kill -INT $server 2>/dev/null
wait $server
rm -rf "$folder"`

async function untilReady(url: string, keeper: ChildProcess, log: string): Promise<void> {
  const deadline = performance.now() + START_DEADLINE_MS
  for (;;) {
    try {
      return await withClient(url, async () => {})
    } catch (error) {
      const text = existsSync(log) ? readFileSync(log, 'utf8') : ''
      const dead = /FATAL:.*(could not|lock file)|database system is shut down/.test(text) || keeper.exitCode !== null
      if (dead || performance.now() > deadline) {
        throw new Error(`The throw-away PostgreSQL server does not answer.\n${text}`, { cause: error })
      }
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

function serverUser(): ServerUser {
  if (process.getuid?.() !== 0) return {}
  const idOf = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
  return { uid: idOf('-u'), gid: idOf('-g') }
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  probe.close()
  await once(probe, 'close')
  if (address === null || typeof address === 'string') throw new Error('a listening socket has no port')
  return address.port
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
