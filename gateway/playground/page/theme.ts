/** The theme: light, dark, or that of the system. It is kept for the next visit. */

const STORED = 'runnel.theme';
const THEMES = ['auto', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

export function currentTheme(): Theme {
  const stored = localStorage.getItem(STORED);
  return THEMES.find((theme) => theme === stored) ?? 'auto';
}

export function setTheme(theme: Theme): void {
  localStorage.setItem(STORED, theme);
  applyTheme();
}

/** Must be called before the page is painted. */
export function applyTheme(): void {
  document.documentElement.dataset.theme = currentTheme();
}

export function nextTheme(): Theme {
  return THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length] as Theme;
}
