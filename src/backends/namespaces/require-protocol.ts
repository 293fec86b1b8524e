import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../../contract/app-error.ts'
import { systemClock } from '../../kernel/clock.ts'
import { counted } from '../../kernel/counted.ts'
import { PROTOCOL_VERSION, type SupervisorFacts } from '../../supervisor/protocol.ts'
import { ensureSupervisor, isListening, type SupervisorOptions, socketPathOf } from './start-supervisor.ts'
import type { Ask } from './supervisor-client.ts'

const END_MS_MAX = 10_000
const POLL_MS = 10

/**
 * A supervisor outlives the server that started it, so it may be of another version. An idle supervisor of an older version is
 * replaced; one with running workspaces is left alone, because its exit would kill them.
 */
export async function requireProtocol(options: SupervisorOptions, ask: Ask): Promise<void> {
  const facts = await ask('hello', { bootId: '' })
  if (facts.protocol === PROTOCOL_VERSION) return
  if (facts.protocol > PROTOCOL_VERSION || facts.running > 0) throw await otherVersion(options, facts)
  await ask('shutdown', {})
  const deadlineMs = systemClock.monotonicMs() + END_MS_MAX
  while ((await isListening(socketPathOf(options.state))) && systemClock.monotonicMs() < deadlineMs) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  await ensureSupervisor(options)
  const next = await ask('hello', { bootId: '' })
  if (next.protocol !== PROTOCOL_VERSION) throw await otherVersion(options, next)
}

async function otherVersion(options: SupervisorOptions, facts: SupervisorFacts): Promise<AppError> {
  const pid = Number(await readFile(join(options.state, 'supervisor.pid'), 'utf8').catch(() => Number.NaN))
  const advice =
    facts.protocol > PROTOCOL_VERSION
      ? 'Use that version, or end the process'
      : `It runs ${counted(facts.running, 'workspace')}: stop what runs with that version, or end the process`
  return new AppError(
    'ERR_CAPABILITY_MISSING',
    `The workspaces are held by a process of castellan ${facts.version}, which this version cannot talk to (process ${pid}). ${advice}, which ends what runs in them and keeps their files; then call again.`,
    { pid, version: facts.version, protocol: facts.protocol, running: facts.running },
  )
}
