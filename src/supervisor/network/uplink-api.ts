import { connect } from 'node:net'
import { AppError } from '../../contract/app-error.ts'
import { uplinkAddress } from './addresses.ts'

/** A port of the host's loopback address that slirp4netns listens on, and its number there. */
export type HostForward = Readonly<{ id: number; hostPort: number }>

/** What slirp4netns can be asked on its socket. */
export type UplinkApi = Readonly<{
  list(): Promise<HostForward[]>
  /** Answers false when the host port cannot be listened on. The hub gets its connections on the same port. */
  add(hostPort: number): Promise<boolean>
  remove(id: number): Promise<void>
}>

const ANSWER_TIMEOUT_MS = 5000
const ANSWER_CHARS_MAX = 1024 * 1024

type Answer = Readonly<{
  entries?: readonly Readonly<{ id: number; host_port: number }>[]
  return?: Answer
  error?: Readonly<{ desc?: string }>
}>

export function createUplinkApi(socketPath: string): UplinkApi {
  async function ask(execute: string, args?: Readonly<Record<string, unknown>>): Promise<Answer> {
    const text = await exchange(socketPath, JSON.stringify({ execute, ...(args && { arguments: args }) }))
    try {
      return JSON.parse(text) as Answer
    } catch (cause) {
      throw uplinkMissing(cause)
    }
  }
  return {
    async list() {
      const answer = await ask('list_hostfwd')
      // Versions differ in whether the list is wrapped.
      const entries = answer.entries ?? answer.return?.entries ?? []
      return entries.map((entry) => ({ id: entry.id, hostPort: entry.host_port }))
    },
    async add(hostPort) {
      const { error } = await ask('add_hostfwd', {
        proto: 'tcp',
        host_addr: '127.0.0.1',
        host_port: hostPort,
        guest_addr: uplinkAddress,
        guest_port: hostPort,
      })
      return error === undefined
    },
    async remove(id) {
      await ask('remove_hostfwd', { id })
    },
  }
}

/** One request, one answer: slirp4netns takes a connection for each. */
function exchange(socketPath: string, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect({ path: socketPath, allowHalfOpen: true })
    socket.setEncoding('utf8').setTimeout(ANSWER_TIMEOUT_MS)
    socket.on('connect', () => socket.end(request))
    socket.on('data', (chunk: string) => {
      text += chunk
      if (text.length > ANSWER_CHARS_MAX) socket.destroy(new Error('slirp4netns answers too much'))
    })
    socket.on('timeout', () => socket.destroy(new Error('slirp4netns does not answer')))
    socket.on('end', () => resolve(text))
    socket.on('error', (cause) => reject(uplinkMissing(cause)))
  })
}

function uplinkMissing(cause: unknown): AppError {
  return new AppError(
    'ERR_CAPABILITY_MISSING',
    'The workspaces have no way to the host and the internet: slirp4netns is not running. Install it, see that /dev/net/tun can be opened, and restart.',
    {},
    { cause },
  )
}
