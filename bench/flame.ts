/**
 * `node bench/flame.ts WORK IN_FLIGHT FILE.svg [SECONDS]`: a flame graph of the main thread that does the work, start-up left
 * out. WORK is a call over stdio (ping, task_create, thought_record, task_list, audit_verify_chain), http_ping, hop (a call of a
 * server behind), model_request or model_stream (through the model proxy), or verify, which checks an export offline and ignores
 * IN_FLIGHT and SECONDS. FILE.cpuprofile gets the profile itself.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTasks, pingBody, taskCreateBody, taskListBody, thoughtRecordBody } from './calls.ts'
import { type Connection, callBody, drive } from './client.ts'
import { flameGraph } from './flame-graph.ts'
import { castellan, endChildren, freePort, openStdio, startHttp } from './launch.ts'
import { startOurs as startOurGateway } from './rows/gateway-hop.ts'
import { startMock, startOurs as startOurProxy } from './rows/model-proxy.ts'

type Body = (n: number) => string

/** A chain that is long enough for its verification to be most of a call. */
const CHAIN_RECORDS = 5_000

async function chainBody(connection: Connection): Promise<Body> {
  const tasks = await createTasks(connection, 1)
  await drive(connection, { inFlight: 64, callsMax: CHAIN_RECORDS, timeMaxMs: 60_000, body: thoughtRecordBody(tasks) })
  const verification = callBody('audit_verify_chain', { task_id: tasks[0] })
  return () => verification
}

const bodies: Readonly<Record<string, (connection: Connection) => Promise<Body>>> = {
  ping: async () => pingBody,
  task_create: async () => taskCreateBody,
  thought_record: async (connection) => thoughtRecordBody(await createTasks(connection, 16)),
  task_list: async () => taskListBody,
  audit_verify_chain: chainBody,
  http_ping: async () => pingBody,
}

const works = [...Object.keys(bodies), 'hop', 'model_request', 'model_stream', 'verify']
const [work = '', inFlightText = '', file = '', secondsText = '10'] = process.argv.slice(2)
const [inFlight, seconds] = [Number(inFlightText), Number(secondsText)]
if (!works.includes(work) || !(inFlight > 0) || !/\.(?:svg|cpuprofile)$/.test(file) || !(seconds > 0)) {
  console.error(`node bench/flame.ts ${works.join('|')} IN_FLIGHT FILE.svg [SECONDS]`)
  process.exit(2)
}

type Profiled = Readonly<{ title: string; fromMicros: number }>

type Subject = Readonly<{ connection: Connection; body: Body; close(): Promise<void> }>

/** The model that answers is no part of what is profiled. */
async function openModelProxy(data: string, environment: Record<string, string>): Promise<Subject> {
  const mockPort = await freePort()
  const mock = await startMock(mockPort)
  const { connection, body, streamBody, stop } = await startOurProxy(data, mockPort, environment)
  const close = async (): Promise<void> => {
    await connection.close()
    await stop()
    await mock.stop()
  }
  return { connection, body: work === 'model_stream' ? () => streamBody : body, close }
}

async function openSubject(data: string, environment: Record<string, string>): Promise<Subject> {
  mkdirSync(data, { recursive: true, mode: 0o700 })
  if (work.startsWith('model_')) return openModelProxy(data, environment)
  if (work === 'hop') {
    const { connection, body, stop } = await startOurGateway(data, environment)
    return { connection, body, close: stop }
  }
  const opened = await openConnection(data, environment)
  return { ...opened, body: await bodies[work]!(opened.connection) }
}

async function openConnection(data: string, environment: Record<string, string>): Promise<Omit<Subject, 'body'>> {
  if (work !== 'http_ping') {
    const connection = await openStdio({ ...castellan.stdio(data), environment })
    return { connection, close: () => connection.close() }
  }
  const port = await freePort()
  const server = await startHttp({ ...castellan.http!(data, port), environment }, port, '/mcp')
  const connection = await server.openLegacy()
  const close = async (): Promise<void> => {
    await connection.close()
    await server.stop()
  }
  return { connection, close }
}

async function profileServer(data: string, environment: Record<string, string>): Promise<Profiled> {
  const { connection, body, close } = await openSubject(data, environment)
  const load = { inFlight, body, callsMax: Number.MAX_SAFE_INTEGER }
  await drive(connection, { ...load, timeMaxMs: 2_000 })
  const fromMicros = Number(process.hrtime.bigint() / 1000n)
  const { perSecond } = await drive(connection, { ...load, timeMaxMs: seconds * 1000 })
  await close()
  const isHttp = work === 'http_ping' || work === 'hop' || work.startsWith('model_')
  const [call, over] = [work === 'http_ping' ? 'ping' : work, isHttp ? 'HTTP' : 'stdio']
  return {
    title: `${call}, ${inFlight} in flight over ${over}: ${Math.round(perSecond)} calls a second while profiled`,
    fromMicros,
  }
}

function profileVerify(environment: Record<string, string>): Profiled {
  const args = [join(import.meta.dirname, 'verify.ts')]
  const { status, stdout } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (status !== 0) throw new Error(`bench/verify.ts ended with ${status}`)
  // The records that it checks are made first, and are none of its work.
  const { from_micros: fromMicros, ...measured } = JSON.parse(stdout.trim().split('\n').at(-1)!) as {
    from_micros: number
  }
  return { title: `verification of an export: ${JSON.stringify(measured)}`, fromMicros }
}

const directory = mkdtempSync(join(tmpdir(), 'castellan-flame-'))
process.on('exit', endChildren)
try {
  const profiles = join(directory, 'profiles')
  const environment = { NODE_OPTIONS: `--cpu-prof --cpu-prof-interval 200 --cpu-prof-dir=${profiles}` }
  const profiled =
    work === 'verify' ? profileVerify(environment) : await profileServer(join(directory, 'data'), environment)
  const [profile] = readdirSync(profiles)
    .filter((name) => name.endsWith('.cpuprofile'))
    .map((name) => readFileSync(join(profiles, name), 'utf8'))
    .sort((one, other) => other.length - one.length)
  if (file.endsWith('.svg')) writeFileSync(file, flameGraph(JSON.parse(profile!), profiled))
  else writeFileSync(file, JSON.stringify({ ...(JSON.parse(profile!) as object), fromMicros: profiled.fromMicros }))
} finally {
  endChildren()
  rmSync(directory, { recursive: true, force: true })
}
