/** `@musistudio/llms` before one provider in OpenAI's format. Takes its port, the upstream's, and the folder it is installed in. */
import { createRequire } from 'node:module'
import { join } from 'node:path'

const [port, upstream, folder] = process.argv.slice(2)
const file = join(folder!, 'node_modules', '@musistudio', 'llms', 'dist', 'cjs', 'server.cjs')
const { default: Server } = createRequire(import.meta.url)(file) as {
  default: new (options: object) => { start(): Promise<void> }
}
const provider = {
  name: 'bench',
  api_base_url: `http://127.0.0.1:${upstream}/v1/chat/completions`,
  api_key: 'none',
  models: ['bench-model'],
  transformer: { use: ['OpenAI'] },
}
const initialConfig = { providers: [provider], PORT: port, HOST: '127.0.0.1' }
await new Server({ useJsonFile: false, useEnvFile: false, logger: false, initialConfig }).start()
