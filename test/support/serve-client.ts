import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { cleanEnvironment, launcher, type Outcome } from './castellan-client.ts'

/** A `castellan serve` and a client that calls its tools over HTTP. */
export type ServeClient = Readonly<{
  serves: true
  pid: number
  call(tool: string, args: object): Promise<Outcome>
  kill(signal: NodeJS.Signals): void
  ended: Promise<unknown>
}>

export async function startServe(
  dataDir: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<ServeClient> {
  const args = ['serve', '--port', '0', '--json', '--data-dir', dataDir]
  const child = spawn(launcher, args, { stdio: ['ignore', 'pipe', 'ignore'], env: cleanEnvironment(environment) })
  const ended = once(child, 'close')
  const lines = createInterface({ input: child.stdout })
  const failed = ended.then((): never => {
    throw new Error('serve ended before it listened')
  })
  failed.catch(() => {})
  const [line] = (await Promise.race([once(lines, 'line'), failed])) as [string]
  const { port } = JSON.parse(line) as { port: number }
  const isRevoked = (): boolean => child.exitCode !== null || child.signalCode !== null
  return {
    serves: true,
    pid: child.pid!,
    kill: (signal) => void child.kill(signal),
    ended,
    async call(tool, args_) {
      try {
        const url = `http://127.0.0.1:${port}/v1/tools/${tool}`
        const headers = { 'content-type': 'application/json' }
        const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(args_) })
        const body = (await response.json()) as Record<string, unknown>
        return response.ok ? { kind: 'done', answer: body } : toFailure(body as Envelope)
      } catch (error) {
        // A connection that breaks says nothing about what became of the call, whichever of the two processes died.
        if (isRevoked() || !(error instanceof TypeError || error instanceof SyntaxError)) return { kind: 'gone' }
        return { kind: 'failed', code: 'connection lost', isUnknown: true, message: String(error.cause ?? error) }
      }
    },
  }
}

type Envelope = Readonly<{ error: { code: string; message: string } }>

/** Over HTTP an answer that the owner is lost does not say whether the call had reached it. */
const toFailure = ({ error }: Envelope): Outcome => ({
  kind: 'failed',
  code: error.code,
  isUnknown: error.code === 'ERR_OWNER_LOST',
  message: error.message,
})
