/**
 * What the tool list costs a model that reads it: `node bench/tokens.ts [--json]`. Tokens are estimated as characters / 4,
 * which is near enough for JSON in English to compare exposures; it is not any model's own count.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Connection, request } from './client.ts'
import { castellan, endChildren, openStdio } from './launch.ts'
import { formatTable } from './table.ts'

const charactersPerToken = 4
const exposures = ['default', 'full'] as const

type ListedTool = Readonly<Record<string, unknown>>
type Cost = Readonly<{
  exposure: string
  tools: number
  characters: number
  tokens: number
  withoutOutputSchemas: number
}>

const listTools = async (connection: Connection): Promise<ListedTool[]> => {
  const tools: ListedTool[] = []
  let cursor: unknown
  do {
    const page = await request(connection, 'tools/list', cursor === undefined ? {} : { cursor })
    tools.push(...(page['tools'] as ListedTool[]))
    cursor = page['nextCursor']
  } while (cursor !== undefined)
  return tools
}

const costOf = async (exposure: string, directory: string): Promise<Cost> => {
  const launch = castellan.stdio(directory)
  const args = launch.args.map((argument) => (argument === 'full' ? exposure : argument))
  const connection = await openStdio({ ...launch, args })
  try {
    const tools = await listTools(connection)
    const characters = JSON.stringify(tools).length
    const lean = JSON.stringify(tools.map(({ outputSchema: _, ...tool }) => tool)).length
    const estimate = (count: number): number => Math.round(count / charactersPerToken)
    return {
      exposure,
      tools: tools.length,
      characters,
      tokens: estimate(characters),
      withoutOutputSchemas: estimate(lean),
    }
  } finally {
    await connection.close()
  }
}

const directory = await mkdtemp(join(tmpdir(), 'castellan-tokens-'))
process.on('exit', endChildren)
try {
  const costs: Cost[] = []
  for (const exposure of exposures) costs.push(await costOf(exposure, join(directory, exposure)))
  if (process.argv.includes('--json')) {
    console.log(JSON.stringify({ charactersPerToken, costs }, null, 2))
  } else {
    const cells = costs.map((cost) => [
      cost.exposure,
      String(cost.tools),
      String(cost.characters),
      String(cost.tokens),
      String(cost.withoutOutputSchemas),
    ])
    console.log(formatTable(['tools/list', 'tools', 'characters', 'tokens (≈ /4)', 'without output schemas'], cells))
  }
} finally {
  await rm(directory, { recursive: true, force: true })
}
