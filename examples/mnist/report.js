// A click on a mistake in the heat map leaves only its digits in the gallery; a second click, or the
// button, brings all back.
const cells = [...document.querySelectorAll("td.wrong")];
const digits = [...document.querySelectorAll(".digit")];
const all = document.getElementById("all");

function pick(cell) {
    cells.forEach(c => c.classList.toggle("on", c === cell));
    digits.forEach(d => d.classList.toggle("hide", cell !== null && d.dataset.k !== cell.dataset.k));
    all.hidden = cell === null;
}

cells.forEach(c => c.addEventListener("click", () => {
    const off = c.classList.contains("on");
    pick(off ? null : c);
    if (!off) {
        document.getElementById("wrong").scrollIntoView({ behavior: "smooth" });
    }
}));
all.addEventListener("click", () => pick(null));
