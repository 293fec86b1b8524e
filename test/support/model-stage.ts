import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type CastellanClient, startClient } from './castellan-client.ts'
import { endSupervisor } from './end-supervisor.ts'
import { type Line, type SeenRequest, startScriptedModel } from './scripted-model.ts'

/** A data directory with a scripted model, and the real program on it as often as a test likes. */
export type ModelStage = Readonly<{
  dataDir: string
  requests: readonly SeenRequest[]
  start(environment?: Readonly<Record<string, string>>): Promise<CastellanClient>
}>

/**
 * `config` is beside `models` in the configuration file. A test that runs beside others gives its own `onFinished`, from its
 * context: the one that is imported belongs to whichever test began last.
 */
export async function setModelStage(
  answer: (request: SeenRequest, position: number) => Line | Promise<Line>,
  config: Readonly<Record<string, unknown>> = {},
  aliases: readonly string[] = ['default', 'other'],
  onFinished: (cleanup: () => Promise<void>) => void = onTestFinished,
): Promise<ModelStage> {
  const dataDir = mkdtempSync(join(tmpdir(), 'castellan-stage-'))
  const model = await startScriptedModel(answer)
  const provider = {
    name: 'scripted',
    type: 'openai',
    endpoint: `${model.url}/v1`,
    api_key: 'env:MODEL_KEY',
    models: aliases.map((alias) => ({ alias, model: alias })),
  }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers: [provider] }, ...config }))
  const clients: CastellanClient[] = []
  onFinished(async () => {
    for (const client of clients) {
      client.kill('SIGKILL')
      await client.ended
    }
    await model.stop()
    await endSupervisor(dataDir)
    rmSync(dataDir, { recursive: true, force: true })
  })
  return {
    dataDir,
    requests: model.requests,
    async start(environment = {}) {
      const client = await startClient({ dataDir, environment: { MODEL_KEY: 'k', ...environment } })
      clients.push(client)
      return client
    },
  }
}

/** The answer of a call that must succeed. */
export async function ask<T = Record<string, unknown>>(
  client: CastellanClient,
  tool: string,
  args: object = {},
): Promise<T> {
  const outcome = await client.call(tool, args)
  if (outcome.kind !== 'done') throw new Error(`${tool}: ${JSON.stringify(outcome)} ${client.stderr()}`)
  return outcome.answer as T
}
