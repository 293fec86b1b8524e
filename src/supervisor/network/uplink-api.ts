import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { AppError } from '../../contract/app-error.ts'

/** The API socket of slirp4netns. */
export type UplinkApi = Readonly<{
  /** Throws, with the last message of slirp4netns, if it does not answer. */
  hello(): Promise<void>
  /** Whether it answers within this time. Returns early if it is known to have ended. */
  answersWithin(timeoutMs: number): Promise<boolean>
}>

/** The API socket of slirp4netns, its log, and the file that exists while it does not run. */
const UPLINK_SOCKET_NAME = 'slirp.sock'
const LOG_NAME = 'slirp.log'
const ENDED_NAME = 'slirp.ended'
const POLL_MS = 20
const REASON_CHARS_MAX = 300
const ANSWER_TIMEOUT_MS = 5000
const ANSWER_CHARS_MAX = 1024 * 1024

export function createUplinkApi(socketDirectory: string, logDirectory: string): UplinkApi {
  const missing = async (cause: unknown): Promise<AppError> => uplinkMissing(cause, await lastWords(logDirectory))
  async function hello(): Promise<void> {
    try {
      JSON.parse(await exchange(join(socketDirectory, UPLINK_SOCKET_NAME), JSON.stringify({ execute: 'list_hostfwd' })))
    } catch (cause) {
      throw await missing(cause)
    }
  }
  const answers = (): Promise<boolean> =>
    hello().then(
      () => true,
      () => false,
    )
  return {
    hello,
    async answersWithin(timeoutMs) {
      for (let waitedMs = 0; waitedMs < timeoutMs; waitedMs += POLL_MS) {
        if (await answers()) return true
        if (existsSync(join(logDirectory, ENDED_NAME))) return false
        await setTimeout(POLL_MS)
      }
      return await answers()
    },
  }
}

/** slirp4netns takes one request for each connection. */
function exchange(socketPath: string, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect({ path: socketPath, allowHalfOpen: true })
    socket.setEncoding('utf8').setTimeout(ANSWER_TIMEOUT_MS)
    socket.on('connect', () => socket.end(request))
    socket.on('data', (chunk: string) => {
      text += chunk
      if (text.length > ANSWER_CHARS_MAX) socket.destroy(new Error('slirp4netns sent too long an answer'))
    })
    socket.on('timeout', () => socket.destroy(new Error('slirp4netns does not answer')))
    socket.on('end', () => resolve(text))
    socket.on('error', reject)
  })
}

/** The line in which slirp4netns said why it exits, if it did. */
async function lastWords(directory: string): Promise<string> {
  const lines = (await readFile(join(directory, LOG_NAME), 'utf8').catch(() => '')).trimEnd().split('\n')
  return (lines.find((line) => /denied|not permitted|not found|no such|fail|error/i.test(line)) ?? '')
    .replaceAll(/\p{Cc}/gu, ' ')
    .slice(0, REASON_CHARS_MAX)
}

function uplinkMissing(cause: unknown, said: string): AppError {
  return new AppError(
    'ERR_CAPABILITY_MISSING',
    `Workspaces have no unrestricted internet access: slirp4netns is not running${said === '' ? '' : ` (${said})`}. Install slirp4netns, make sure that /dev/net/tun can be opened, and restart the server.`,
    {},
    { cause },
  )
}
