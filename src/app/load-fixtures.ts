import { pathToFileURL } from 'node:url'
import type { DoorExtension } from '../mcp/door-extension.ts'

/** For the conformance suite only: a module whose tools and prompts stand beside our own. */
export async function loadFixtures(path: string): Promise<DoorExtension> {
  const fixtures = (await import(pathToFileURL(path).href)) as { createConformanceFixtures(): DoorExtension }
  return fixtures.createConformanceFixtures()
}
