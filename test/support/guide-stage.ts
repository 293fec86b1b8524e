import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished } from 'vitest'
import { parse } from 'yaml'
import { writeCastellanRelay } from './castellan-relay.ts'
import { createTranscript, type Guide } from './guide.ts'
import { homeEnvironment } from './run-castellan.ts'
import { type Line, type SeenRequest, startScriptedModel } from './scripted-model.ts'
import { startServerHere } from './server-here.ts'

/** A server with the configuration of a guide, but for the address of the model, and a folder with its files. */
export async function setGuideStage({ files, commands }: Guide, model: (request: SeenRequest) => Line) {
  const home = mkdtempSync(join(tmpdir(), 'castellan-guide-'))
  const dataDir = join(home, 'data')
  mkdirSync(dataDir)
  mkdirSync(join(home, 'bin'))
  const relay = await writeCastellanRelay(join(home, 'bin'))
  const scripted = await startScriptedModel(model)
  const { models } = parse(files.get('castellan.yaml')!) as { models: { providers: object[] } }
  const providers = models.providers.map((provider) => ({ ...provider, endpoint: `${scripted.url}/v1` }))
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers } }))
  const key = { ANTHROPIC_API_KEY: 'k' }
  const server = await startServerHere({ dataDir, env: key })
  onTestFinished(async () => {
    await server.stop()
    await relay[Symbol.asyncDispose]()
    await scripted.stop()
    rmSync(home, { recursive: true, force: true })
  })
  const path = `${join(home, 'bin')}:${process.env['PATH']}`
  const env = homeEnvironment(home, { ...key, CASTELLAN_DATA_DIR: dataDir, PATH: path })
  for (const [name, content] of files) writeFileSync(join(home, name), content)
  async function run(command: string): Promise<string> {
    const child = spawn('sh', ['-c', command], { cwd: home, env, stdio: ['ignore', 'pipe', 'pipe'] })
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
    expect(code, `${command}\n${stdout}${stderr}`).toBe(0)
    return stdout
  }
  const transcript = createTranscript()
  return {
    requests: scripted.requests,
    transcript,
    /** Gives every command of the guide and compares the answers. */
    async follow(): Promise<void> {
      for (const { command, answer } of commands) {
        transcript.compare(answer, await run(transcript.inThisRun(command)))
      }
    },
  }
}
