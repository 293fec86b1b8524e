import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { SMTPServer } from 'smtp-server'
import type { TlsPair } from './tls-files.ts'

export type Mail = Readonly<{ from: string; to: readonly string[]; text: string }>

export const MAIL_PASSWORD = 'mail secret'

/** A real mail server on this machine with TLS and a password for `castellan`. It takes no mail for `refused…`. */
export async function startMailServer(
  pair: TlsPair,
): Promise<AsyncDisposable & Readonly<{ port: number; received: Mail[] }>> {
  const received: Mail[] = []
  const server = new SMTPServer({
    cert: pair.ca,
    key: readFileSync(pair.key, 'utf8'),
    onAuth: ({ username, password }, session, answer) =>
      session.secure && username === 'castellan' && password === MAIL_PASSWORD
        ? answer(null, { user: username })
        : answer(new Error('no')),
    onRcptTo: ({ address }, _, answer) => answer(address.startsWith('refused') ? new Error('no such box') : null),
    onData(stream, session, done) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope
        received.push({
          from: (mailFrom as { address: string }).address,
          to: rcptTo.map(({ address }) => address),
          text: Buffer.concat(chunks).toString('utf8').replaceAll('=\r\n', ''),
        })
        done()
      })
    },
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.server.address() as AddressInfo).port,
    received,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  }
}
