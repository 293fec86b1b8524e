import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type CastellanClient, startClient } from './castellan-client.ts'
import { startClientHere } from './castellan-here.ts'
import { endSupervisor } from './end-supervisor.ts'
import { type Line, type SeenRequest, startScriptedModel } from './scripted-model.ts'

/** A data directory with a scripted model, and the program on it as often as a test likes. */
export type ModelStage = Readonly<{
  dataDir: string
  requests: readonly SeenRequest[]
  /** The program in this process. */
  start(environment?: Variables): Promise<CastellanClient>
  /** The program as a process, which can be killed. */
  startProcess(environment?: Variables): Promise<CastellanClient>
}>

type Variables = Readonly<Record<string, string>>

/**
 * Without `answer` there is no model. `config` is beside `models` in the configuration file. A test that runs beside others gives its own `onFinished`, from its
 * context: the one that is imported belongs to whichever test began last.
 */
export async function setModelStage(
  answer: ((request: SeenRequest, position: number) => Line | Promise<Line>) | undefined,
  config: Readonly<Record<string, unknown>> = {},
  aliases: readonly string[] = ['default', 'other'],
  onFinished: (cleanup: () => Promise<void>) => void = onTestFinished,
): Promise<ModelStage> {
  const dataDir = mkdtempSync(join(tmpdir(), 'castellan-stage-'))
  const model = answer && (await startScriptedModel(answer))
  const provider = model && {
    name: 'scripted',
    type: 'openai',
    endpoint: `${model.url}/v1`,
    api_key: 'env:MODEL_KEY',
    models: aliases.map((alias) => ({ alias, model: alias })),
  }
  const models = provider && { models: { providers: [provider] } }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ ...models, ...config }))
  const clients: CastellanClient[] = []
  const startWith = async (launch: typeof startClient, environment: Variables = {}): Promise<CastellanClient> => {
    const client = await launch({ dataDir, environment: { MODEL_KEY: 'k', ...environment } })
    clients.push(client)
    return client
  }
  onFinished(async () => {
    for (const client of clients) await client.leave()
    await model?.stop()
    await endSupervisor(dataDir)
    rmSync(dataDir, { recursive: true, force: true })
  })
  return {
    dataDir,
    requests: model?.requests ?? [],
    start: (environment) => startWith(startClientHere, environment),
    startProcess: (environment) => startWith(startClient, environment),
  }
}
