import { pathToFileURL } from 'node:url'
import type { McpExtension } from '../mcp/mcp-extension.ts'

/** For the conformance suite only: a module whose tools and prompts are added to ours. */
export async function loadFixtures(path: string): Promise<McpExtension> {
  const fixtures = (await import(pathToFileURL(path).href)) as { createConformanceFixtures(): McpExtension }
  return fixtures.createConformanceFixtures()
}
