import { readFileSync } from 'node:fs'
import { findPrepared } from '../../tools/runtime/prepared-text.ts'
import type { PreparedTool } from '../../tools/runtime/prepared-tools.ts'

const FILE = new URL('../../tools/runtime/prepared-tools.json', import.meta.url)

/** One of our tools, without parsing all others; undefined for an unknown name. */
export const preparedTool = (name: string): PreparedTool | undefined => findPrepared(readFileSync(FILE), name)
