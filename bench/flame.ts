/**
 * `node bench/flame.ts CALL IN_FLIGHT FILE.svg [SECONDS]`: a flame graph of the server's main thread under one load over stdio,
 * start-up left out. CALL is ping, task_create, thought_record or task_list.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTasks, pingBody, taskCreateBody, taskListBody, thoughtRecordBody } from './calls.ts'
import { type Connection, drive } from './client.ts'
import { flameGraph } from './flame-graph.ts'
import { castellan, endChildren, openStdio } from './launch.ts'

const bodies: Readonly<Record<string, (connection: Connection) => Promise<(n: number) => string>>> = {
  ping: async () => pingBody,
  task_create: async () => taskCreateBody,
  thought_record: async (connection) => thoughtRecordBody(await createTasks(connection, 16)),
  task_list: async () => taskListBody,
}

const [call = '', inFlightText = '', file = '', secondsText = '10'] = process.argv.slice(2)
const [inFlight, seconds] = [Number(inFlightText), Number(secondsText)]
const prepare = bodies[call]
if (prepare === undefined || !(inFlight > 0) || !file.endsWith('.svg') || !(seconds > 0)) {
  console.error(`node bench/flame.ts ${Object.keys(bodies).join('|')} IN_FLIGHT FILE.svg [SECONDS]`)
  process.exit(2)
}

const directory = mkdtempSync(join(tmpdir(), 'castellan-flame-'))
process.on('exit', endChildren)
try {
  const launch = castellan.stdio(join(directory, 'data'))
  const profiles = join(directory, 'profiles')
  const environment = { NODE_OPTIONS: `--cpu-prof --cpu-prof-interval 200 --cpu-prof-dir=${profiles}` }
  const connection = await openStdio({ ...launch, environment })
  const body = await prepare(connection)
  const load = { inFlight, body, callsMax: Number.MAX_SAFE_INTEGER }
  await drive(connection, { ...load, timeMaxMs: 2_000 })
  const fromMicros = Number(process.hrtime.bigint() / 1000n)
  const { perSecond } = await drive(connection, { ...load, timeMaxMs: seconds * 1000 })
  await connection.close()
  const [profile] = readdirSync(profiles)
    .filter((name) => name.endsWith('.cpuprofile'))
    .map((name) => readFileSync(join(profiles, name), 'utf8'))
    .sort((one, other) => other.length - one.length)
  const title = `${call}, ${inFlight} in flight over stdio: ${Math.round(perSecond)} calls a second while profiled`
  writeFileSync(file, flameGraph(JSON.parse(profile!), { title, fromMicros }))
} finally {
  endChildren()
  rmSync(directory, { recursive: true, force: true })
}
