import { afterAll, expect, it } from 'vitest'
import type { Call } from '../../src/contract/call.ts'
import { localOwner } from '../../src/contract/principal.ts'
import { createAgentSearch } from '../../src/domains/agents/search.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { createLocalEmbedder } from '../../src/search/local-embedder.ts'

/** Agents, and questions that a person would ask for them in other words. */
const agents: Readonly<Record<string, string>> = {
  'image-resizer': 'Changes width and height of pictures.',
  'mail-sorter': 'Sorts incoming letters into folders.',
  poet: 'Writes verses about the sea.',
  coder: 'Writes and repairs code in its workspace, runs the tests, and stops when they pass.',
  researcher: 'Searches the web for an answer, reads the sources, and writes a short report that cites them.',
  'code-quality-judge': 'Reviews code that an agent wrote: correctness, tests, readability, safety.',
  'changelog-writer': 'Turns a commit list into a dated changelog file.',
  'invoice-extractor': 'Reads PDF bills and returns amounts as JSON.',
  'log-watcher': 'Looks for errors in server logs and raises alarms.',
  translator: 'Translates documents between English and German.',
  'backup-runner': 'Copies databases to cold storage every night.',
  'meeting-summariser': 'Turns transcripts into minutes with action items.',
}
const questions: readonly (readonly [question: string, agent: string])[] = [
  ['make thumbnails smaller', 'image-resizer'],
  ['scale photos', 'image-resizer'],
  ['organise my email inbox', 'mail-sorter'],
  ['poem about the ocean', 'poet'],
  ['fix a failing unit test', 'coder'],
  ['repair a bug in my program', 'coder'],
  ['find information online', 'researcher'],
  ['look up facts on the internet', 'researcher'],
  ['review a pull request', 'code-quality-judge'],
  ['release notes from git history', 'changelog-writer'],
  ['parse receipts and get the total', 'invoice-extractor'],
  ['alert me when the server crashes', 'log-watcher'],
  ['convert text to another language', 'translator'],
  ['save a copy of my data nightly', 'backup-runner'],
  ['notes from a call transcript', 'meeting-summariser'],
]

const rows = Object.entries(agents).map(([name, description]) => ({
  id: name,
  version: '1.0.0',
  name,
  description,
  labels: {},
}))
const call = { principal: localOwner, signal: new AbortController().signal, warn() {} } as Partial<Call> as Call
const embedder = createLocalEmbedder()
afterAll(() => embedder.close())

/** The mean over all questions of one through the place of the right answer; not found at all counts nothing. */
async function recall(model: typeof embedder | undefined): Promise<number> {
  const { search } = createAgentSearch({ embedder: model, logger: silentLogger })
  let sum = 0
  for (const [query, agent] of questions) {
    const request = { query, limit: 100, min_score: 0.3, include_platform_templates: false }
    const rank = (await search(call, rows, request)).results.findIndex(({ name }) => name === agent)
    if (rank >= 0) sum += 1 / (rank + 1)
  }
  return sum / questions.length
}

it('finds agents by meaning far better than by words', async () => {
  expect(await recall(embedder)).toBeGreaterThan(0.95)
  expect(await recall(undefined)).toBeLessThan(0.5)
})
