import { spawn } from 'node:child_process'
import type { Environment } from '../config-paths.ts'

/** Asks the desktop to open an address; whether there is one to ask. What becomes of it is for the person to see. */
export function openBrowser(url: string, env: Environment): boolean {
  const isMac = process.platform === 'darwin'
  if (!isMac && !env['DISPLAY'] && !env['WAYLAND_DISPLAY']) return false
  const child = spawn(isMac ? 'open' : 'xdg-open', [url], { stdio: 'ignore', detached: true, env })
  // Without such a program the address on the terminal is what there is.
  child.on('error', () => {})
  child.unref()
  return true
}
