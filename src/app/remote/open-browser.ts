import { spawn } from 'node:child_process'
import type { Environment } from '../config-paths.ts'

/** Asks the desktop to open an address. Returns whether there is a desktop; only the person sees the outcome. */
export function openBrowser(url: string, env: Environment): boolean {
  const isMac = process.platform === 'darwin'
  if (!isMac && !env['DISPLAY'] && !env['WAYLAND_DISPLAY']) return false
  const child = spawn(isMac ? 'open' : 'xdg-open', [url], { stdio: 'ignore', detached: true, env })
  // Without such a program the person uses the printed address.
  child.on('error', () => {})
  child.unref()
  return true
}
