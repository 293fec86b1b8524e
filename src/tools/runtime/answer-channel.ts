import { channel } from 'node:diagnostics_channel'
import type { CatalogTool } from './catalog.ts'
import type { ToolAnswer } from './tool-host.ts'

/**
 * Every answer as it leaves the pipeline, for diagnostics inside the process. The program itself does not subscribe; the tests
 * compare each answer with the published output schema of its tool.
 */
export type PublishedAnswer = Readonly<{
  /** The tool that ran, whatever name it was called by; absent if there is no such tool. */
  tool: CatalogTool | undefined
  answer: ToolAnswer
}>
export const answers = channel('castellan:tool-answer')
