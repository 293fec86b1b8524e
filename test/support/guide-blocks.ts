import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished } from 'vitest'
import { launcher } from './castellan-client.ts'
import { createTranscript } from './guide.ts'
import { startRealServer } from './real-server.ts'
import { homeEnvironment } from './run-castellan.ts'

/** A fenced block of a document: what comes after the fence, and what is in it. */
export type Block = Readonly<{ language: string; isLong: boolean; body: string }>

export const blocksOf = (markdown: string): Block[] =>
  [...markdown.matchAll(/^( *)```(\w*)( long)?\n([\s\S]*?)^\1```$/gm)].map(([, , language, long, body]) => ({
    language: language!,
    isLong: long !== undefined,
    body: body!,
  }))

/** A home, with a running server unless it is not wanted, in which the blocks of a guide are carried out one after the other. */
export async function setReaderStage(
  settings: { config?: string; env?: Record<string, string>; serve?: boolean } = {},
) {
  const home = mkdtempSync(join(tmpdir(), 'castellan-reader-'))
  const dataDir = join(home, '.local/share/castellan')
  mkdirSync(dataDir, { recursive: true })
  mkdirSync(join(home, 'bin'))
  symlinkSync(launcher, join(home, 'bin', 'castellan'))
  mkdirSync(join(home, 'node_modules'))
  symlinkSync(resolve('.'), join(home, 'node_modules', 'castellan'))
  if (settings.config !== undefined) writeFileSync(join(dataDir, 'castellan.yaml'), settings.config)
  const serve = settings.serve ?? true
  const server = serve ? await startRealServer({ dataDir, env: settings.env ?? {} }) : undefined
  onTestFinished(async () => {
    await server?.stop()
    rmSync(home, { recursive: true, force: true })
  })
  const path = `${join(home, 'bin')}:${dirname(process.execPath)}:${process.env['PATH']}`
  const env = homeEnvironment(home, { ...settings.env, PATH: path })
  const transcript = createTranscript()

  async function run(command: string): Promise<{ code: number; output: string }> {
    const child = spawn('sh', ['-ec', `exec 2>&1\n${command}`], { cwd: home, env, stdio: ['ignore', 'pipe', 'ignore'] })
    const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')])
    return { code: code as number, output }
  }

  return {
    home,
    url: server?.url ?? '',
    run,
    /** A script must succeed; a console shows what each command answers, failures included. */
    async follow({ language, body }: Block): Promise<void> {
      const file = /^# (\S+\.\w+)\n/.exec(body)?.[1]
      if (file !== undefined) writeFileSync(join(home, file), body)
      if (language === 'sh') {
        const { code, output } = await run(body)
        expect(code, `${body}\n${output}`).toBe(0)
      }
      if (language !== 'console') return
      for (const part of body.split(/^\$ /m).slice(1)) {
        const [, command, answer] = /^((?:.*\\\n)*.*)\n([\s\S]*)$/.exec(part)!
        const { code, output } = await run(transcript.inThisRun(command!))
        transcript.compare(answer!, output)
        expect(code === 0, `${command}\n${output}`).toBe(!/^(does not verify|error):/.test(answer!))
      }
    },
  }
}
