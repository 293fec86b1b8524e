import { channel } from 'node:diagnostics_channel'
import type { CatalogTool } from './catalog.ts'
import type { ToolAnswer } from './tool-host.ts'

/**
 * Every answer as it leaves the pipeline, for diagnostics inside the process. The program itself subscribes to nothing;
 * its tests hold each answer against the output schema that is published for the tool.
 */
export type PublishedAnswer = Readonly<{
  /** The tool that ran, whatever name it was called by; absent when there is none of that name. */
  tool: CatalogTool | undefined
  answer: ToolAnswer
}>
export const answers = channel('castellan:tool-answer')
