import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { loadAllTools } from '../../src/tools/index.ts'
import { createCatalog } from '../../src/tools/runtime/catalog.ts'
import { contractFaults, type ToolContract, type ToolSchemas } from './contract-check.ts'

const allTools = await loadAllTools()

const contracts = JSON.parse(readFileSync(new URL('colibri.json', import.meta.url), 'utf8')) as Record<
  string,
  ToolContract
>
const catalog = createCatalog(allTools)

async function schemasOf(name: string): Promise<ToolSchemas> {
  const tool = catalog.find(name)
  if (tool === undefined) throw new Error(`${name} is not in the catalogue`)
  const { output } = await tool.load()
  return {
    input: tool.listed.inputSchema,
    output: output === undefined ? {} : z.toJSONSchema(output, { io: 'output' }),
  }
}

describe('the published contract of the ledger tools', () => {
  it.each(Object.entries(contracts))('is kept by %s', async (name, contract) => {
    expect(contractFaults(contract, await schemasOf(name))).toEqual([])
  })

  it.each<[what: string, broken: Partial<ToolContract>, fault: string]>([
    ['a parameter', { input: { colour: { types: ['string'], required: false } } }, 'colour is missing'],
    ['a type', { input: { limit: { types: ['array'], required: false } } }, 'limit must accept array'],
    ['a value', { input: { sort_by: { types: [], required: false, enum: ['size'] } } }, 'sort_by must allow size'],
    ['a default', { input: { limit: { types: [], required: false, default: 9 } } }, 'limit must default to 9'],
    ['a bound', { input: { limit: { types: [], required: false, maximum: 9 } } }, 'limit must declare maximum 9'],
    ['a demand', { input: { limit: { types: [], required: true } } }, 'limit must be required'],
    ['a field of the answer', { output: ['colour'] }, 'the answer must always have colour'],
    ['a field it may have', { outputOptional: ['colour'] }, 'the answer cannot have colour'],
  ])('is broken when %s differs', async (_what, broken, fault) => {
    const contract = { input: {}, output: [], outputOptional: [], ...broken }
    expect(contractFaults(contract, await schemasOf('task_list'))).toEqual([fault])
  })

  it('is broken when a parameter is demanded that it does not know', async () => {
    const contract = { input: {}, output: [], outputOptional: [] }
    expect(contractFaults(contract, await schemasOf('merkle_root'))).toEqual(['session_id must be optional'])
  })
})
