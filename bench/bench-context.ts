import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { type Connection, drive, type Load } from './client.ts'
import type { Contender } from './launch.ts'
import { openStdio } from './launch.ts'
import type { SlowDisk } from './slow-fsync.ts'
import type { Row } from './table.ts'

/** What a section of the bench works with. */
export type Bench = Readonly<{
  quick: boolean
  subject: Contender
  slowDisk: SlowDisk
  /** On the disk that is measured; removed when the bench ends. */
  directory: string
  report(row: Omit<Row, 'section'>): void
  progress(text: string): void
  timeLeftMs(): number
}>

export type Section = Readonly<{
  name: string
  /** A section that would not fit into the time left is skipped, and says so. */
  timeNeededMs(quick: boolean): number
  run(bench: Bench): Promise<void>
}>

export const newDirectory = (bench: Bench): Promise<string> => mkdtemp(join(bench.directory, 'data-'))

/** Starts a contender on its own empty data directory. */
export const openContender = async (
  bench: Bench,
  contender: Contender,
  environment: Record<string, string> = {},
): Promise<Connection> => openStdio({ ...contender.stdio(await newDirectory(bench)), environment })

/** Interleaved rounds: short enough that noise hits every contender alike, enough of them for a median. */
export const roundsOf = (bench: Bench): { rounds: number; roundMs: number } =>
  bench.quick ? { rounds: 5, roundMs: 120 } : { rounds: 11, roundMs: 250 }

export const warmUp = async (
  connection: Connection,
  load: Omit<Load, 'callsMax' | 'timeMaxMs'>,
  quick: boolean,
): Promise<void> => {
  await drive(connection, { ...load, callsMax: quick ? 1_500 : 6_000, timeMaxMs: quick ? 500 : 1_500 })
}

/**
 * Until the engine has compiled the path of a call, which takes it more than ten thousand calls, and longer for a longer path. Where
 * a server is compared with one that does much less, rounds before that would compare compilers.
 */
export const warmUpFully = async (connection: Connection, body: Load['body']): Promise<void> => {
  await drive(connection, { inFlight: 16, body, callsMax: 25_000, timeMaxMs: 4_000 })
}
