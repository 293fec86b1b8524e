import { connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import type { Random } from '../../kernel/random.ts'
import { addressesIn, queryFor, TYPE_A, TYPE_AAAA } from './dns-message.ts'

/** How long to wait for the host-network helper after the supervisor's start. */
const HOST_NETWORK_WAIT_MS = 5_000
const POLL_MS = 20
const ANSWER_MS = 12_000
const ANSWER_CHARS_MAX = 200_000

export type HostNames = (host: string, server: string | undefined) => Promise<readonly string[]>

/** Resolves names with the operator's name server, or with those of the host. */
export function createHostNames({
  hostNetworkPath,
  random,
}: Readonly<{ hostNetworkPath: string; random: Random }>): HostNames {
  async function ask(host: string, type: number, server: string | undefined): Promise<readonly string[]> {
    const query = queryFor(random.bytes(2).readUInt16BE(), host, type)
    const answer = await exchange(hostNetworkPath, `names ${server ?? '-'} ${query.toString('hex')}\n`)
    const [word, hex = ''] = answer.trimEnd().split(' ')
    return word === 'answer' ? addressesIn(Buffer.from(hex, 'hex')) : []
  }
  return async (host, server) => (await Promise.all([ask(host, TYPE_A, server), ask(host, TYPE_AAAA, server)])).flat()
}

async function exchange(path: string, line: string): Promise<string> {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    try {
      return await exchangeOnce(path, line)
    } catch (error) {
      const isOnItsWay = ['ENOENT', 'ECONNREFUSED'].includes((error as NodeJS.ErrnoException).code ?? '')
      if (!isOnItsWay || waitedMs >= HOST_NETWORK_WAIT_MS) throw error
      await setTimeout(POLL_MS)
    }
  }
}

function exchangeOnce(path: string, line: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect({ path, allowHalfOpen: true })
    socket
      .setEncoding('utf8')
      .setTimeout(ANSWER_MS, () => socket.destroy(new Error('the host-network helper does not answer')))
    socket.on('connect', () => socket.write(line))
    socket.on('data', (chunk: string) => {
      text += chunk
      if (text.length > ANSWER_CHARS_MAX) socket.destroy(new Error('the answer of the host-network helper is too long'))
    })
    socket.on('end', () => {
      socket.destroy()
      resolve(text)
    })
    socket.on('error', reject)
  })
}
